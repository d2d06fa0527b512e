"""`DrawnField`: what a config shows in place of a value that each episode draws."""

from typing import Any


class DrawnField:
    """The placeholder of a drawn field in `config`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<{self._name} is drawn>"

    def refuse(self, *_: Any) -> Any:
        raise TypeError(
            f"DomainRandomization: expected `config.{self._name}` to be used only inside of this "
            "wrapper, since every episode has its own value; got a use outside. Put the wrapper "
            "that uses it inside DomainRandomization, take the value from `state.fields`, or give "
            "the wrapper a value of its own, as in `TimeLimit(env, max_steps=...)`."
        )


# Without these, Python would say that a `DrawnField` has no such operator.
_OPERATORS = (
    "eq ne lt le gt ge hash bool int float complex index round trunc floor ceil abs neg pos invert "
    "add sub mul truediv floordiv mod divmod pow matmul and or xor lshift rshift "
    "radd rsub rmul rtruediv rfloordiv rmod rdivmod rpow rmatmul rand ror rxor rlshift rrshift "
    "len iter getitem contains call array"
)
for _name in _OPERATORS.split():
    setattr(DrawnField, f"__{_name}__", DrawnField.refuse)
