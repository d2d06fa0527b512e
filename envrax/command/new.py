"""Write a package with a suite of your own: an environment, its test, a trainer and CI."""

import keyword
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from envrax._checks.packages import is_installed
from envrax.registry import available_suites


def arguments(add: Callable[..., Any]) -> None:
    add("name", help="of the package, such as my_suite")


def run(given: Any) -> int:
    """Write the package from `template/`, and print the commands to run next."""
    name = given.name
    is_legal = re.fullmatch("[a-z]([a-z0-9_]*[a-z0-9])?", name) and not keyword.iskeyword(name)
    if not is_legal or Path(name).exists() or is_installed(name) or name in available_suites():
        raise ValueError(
            "new: expected a name of lower-case letters, digits and `_` that no module, folder or "
            f"suite has, such as my_suite; got {name!r}."
        )
    template = Path(__file__).with_name("template")
    files = {str(x.relative_to(template)).removesuffix(".txt"): x for x in template.rglob("*.txt")}
    files.setdefault("ppo.py", template.parents[2] / "examples/ppo.py")  # of a checkout
    with TemporaryDirectory(dir=".") as part:
        for relative, source in files.items():
            path = Path(part, name, relative.replace("my_suite", name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source.read_text(encoding="utf-8").replace("my_suite", name), "utf-8")
        Path(part, name).rename(name)
    print(f"cd {name} && pip install -e '.[test,train]' && pytest && python ppo.py {name}/Reach-v0")
    return 0
