"""What is closed at the end, in a `with` or by hand."""

from types import TracebackType
from typing import Self


class Closing:
    """`close`, and a `with` statement that calls it."""

    def close(self) -> None:
        """Let go of what is held on the host, such as files or processes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
