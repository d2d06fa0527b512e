"""Exceptions of envrax."""


class MissingPackageError(ImportError):
    """A package that an environment suite or an optional feature needs is not installed."""
