"""`python -m envrax new my_suite`: write a package with an environment, its test and a trainer."""

import keyword
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from envrax._checks.packages import is_installed
from envrax.registry import available_suites


def write_suite(name: str) -> Iterator[str]:
    """Write the package of a suite from `template/`, and yield the commands to run next."""
    is_legal = re.fullmatch("[a-z]([a-z0-9_]*[a-z0-9])?", name) and not keyword.iskeyword(name)
    if not is_legal or Path(name).exists() or is_installed(name) or name in available_suites():
        raise ValueError(
            "new: expected a name of lower-case letters, digits and `_` that no module, folder or "
            f"suite has, such as my_suite; got {name!r}."
        )
    template = Path(__file__).with_name("template")
    with TemporaryDirectory(dir=".") as part:
        for source in template.rglob("*.txt"):
            relative = str(source.relative_to(template)).removesuffix(".txt")
            path = Path(part, name, relative.replace("my_suite", name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source.read_text(encoding="utf-8").replace("my_suite", name), "utf-8")
        Path(part, name).rename(name)
    yield f"cd {name} && pip install -e '.[test]' && pytest && python train.py"
