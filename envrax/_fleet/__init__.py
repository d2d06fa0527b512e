"""What both fleets, `MultiEnv` and `MultiVecEnv`, share."""
