"""The base of adapters: `PeerEnv`, what it returns, and what adapters share."""
