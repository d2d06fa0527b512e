"""What touches JAX beyond its API for users: keys, compiled programs, the compile cache."""
