"""Import every module of the installed package; refuse one that comes from a checkout."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from importlib import metadata
from pathlib import Path

import envrax


def main() -> None:
    home = Path(envrax.__path__[0]).resolve()
    if Path(sys.prefix).resolve() not in home.parents:
        sys.exit(f"import_all.py: expected envrax to be installed under {sys.prefix}; got {home}.")
    if envrax.__version__ != metadata.version("envrax"):
        sys.exit(
            f"import_all.py: expected version {metadata.version('envrax')}; "
            f"got {envrax.__version__}."
        )

    def fail(name: str) -> None:
        raise ImportError(f"cannot import {name}") from sys.exception()

    names = [m.name for m in pkgutil.walk_packages(envrax.__path__, "envrax.", onerror=fail)]
    left_out = 0
    for name in names:
        try:
            importlib.import_module(name)
        except envrax.MissingPackageError:  # an adapter, whose library is an extra
            left_out += 1
    print(f"envrax {envrax.__version__}: {len(names) - left_out} of {len(names)} modules imported.")


if __name__ == "__main__":
    main()
