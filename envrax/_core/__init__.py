"""Private modules that several packages share; each has its own place in the table of modules."""
