"""The base of what has a `close` method: environments, batched environments and fleets."""

from typing import Self


class Closing:
    """Has `close`; a `with` statement calls it at the end."""

    def close(self) -> None:
        """Free what is held on the host, such as files or processes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
