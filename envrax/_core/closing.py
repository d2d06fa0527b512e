"""`Closing`: the base that gives environments, batches and fleets `close` and `with`."""

from typing import Self


class Closing:
    """An object with `close`, which a `with` statement calls at its end."""

    def close(self) -> None:
        """Free resources on the host, such as files or processes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
