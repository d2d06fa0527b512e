"""The base of both fleets, `MultiEnv` and `MultiVecEnv`."""
