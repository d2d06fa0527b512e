"""The part that goes beyond JAX's public API: keys, compiled functions, meshes, compile cache."""
