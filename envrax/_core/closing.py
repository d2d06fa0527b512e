"""`Closing`: the base of environments, batches and fleets; and what they wrap."""

from collections.abc import Iterator
from typing import Any, Self


class Closing:
    """An object with `close`, which a `with` statement calls at its end."""

    def close(self) -> None:
        """Free resources on the host, such as files or processes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def whole_stack(env: Any) -> Iterator[Any]:
    """An environment or a batch, and everything that it wraps, the outermost first."""
    while isinstance(env, Closing):
        yield env
        env = vars(env).get("env")
