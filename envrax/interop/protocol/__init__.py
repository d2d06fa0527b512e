"""`envrax.wrap`: an environment of any JAX library, by the functions that it has."""
