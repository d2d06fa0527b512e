"""Private modules that several rooms share; each stands in the table of rooms by itself."""
