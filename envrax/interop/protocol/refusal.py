"""What is not understood of an object: an error that says which argument decides."""


class Refusal(TypeError):
    """Two readings of an object, or none."""
