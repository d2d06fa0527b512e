"""
Mutation testing: does a test fail if the code is changed? By hand, since it takes long.

    pip install cosmic-ray
    python .ci/mutate.py spaces                 # all places, one mutant each
    python .ci/mutate.py wrappers --sample 80   # as many of them, drawn with a fixed seed

Works on a clone of what is committed. It prints the survivors and the share that was killed.
"""

import argparse
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGETS = {  # what is changed, and the tests that should notice
    "_jax": ("envrax/_jax", "tests/_jax tests/vec_env"),
    "_fleet": ("envrax/_fleet", "tests/_fleet"),
    "autoreset": ("envrax/autoreset", "tests/autoreset tests/vec_env/test_refusals.py"),
    "registry": ("envrax/registry.py", "tests/registry/test_registry.py tests/suite/test_suite.py"),
    "make": ("envrax/make.py", "tests/make/test_make.py tests/make/test_make_multi.py"),
    "suite": ("envrax/suite.py", "tests/suite/test_suite.py"),
    "spaces": ("envrax/spaces", "tests/spaces"),
    "wrappers": ("envrax/wrappers", "tests/wrappers"),
    "rollouts": ("envrax/rollouts", "tests/rollouts"),
    "termination": ("envrax/termination.py", "tests/env tests/vec_env/test_ends.py"),
}
CONFIG = """
[cosmic-ray]
module-path = "{module}"
timeout = 300.0
excluded-modules = []
test-command = "bash -c '{python} -m pytest -x -q -n 0 -p no:cacheprovider {tests}'"

[cosmic-ray.distributor]
name = "local"
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--sample", type=int, help="how many mutants; all places if left out")
    arguments = parser.parse_args()
    module, tests = TARGETS[arguments.target]
    with tempfile.TemporaryDirectory() as folder:
        clone, session = Path(folder, "clone"), Path(folder, "session.sqlite")
        config = Path(folder, "config.toml")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        config.write_text(CONFIG.format(module=module, python=sys.executable, tests=tests))
        os.environ |= {"PYTHONPATH": str(clone), "ENVRAX_TEST_PROGRAMS": f"{folder}/programs"}
        cosmic_ray(clone, "init", str(config), str(session))
        choose(session, arguments.sample)
        cosmic_ray(clone, "exec", str(config), str(session))
        report(session)


def cosmic_ray(clone: Path, *arguments: str) -> None:
    program = shutil.which("cosmic-ray", path=Path(sys.executable).parent) or "cosmic-ray"
    subprocess.run([program, *arguments], cwd=clone, check=True)


def choose(session: Path, sample: int | None) -> None:
    """Keep one mutant of each place: the others say the same thing in other words."""
    draw = random.Random(0)
    places: dict[tuple[str, int, int], list[list[str]]] = defaultdict(list)
    with sqlite3.connect(session) as database:
        select = (
            "select operator_name, operator_args, occurrence, job_id, "
            "module_path, start_pos_row, start_pos_col from mutation_specs"
        )
        for *mutant, module, line, column in database.execute(select):
            if "BinaryOperator_BitOr" not in mutant[0]:  # `int | None`, which nobody evaluates
                places[module, line, column].append(mutant)
        kept = [draw.choice(sorted(mutants))[-1] for _, mutants in sorted(places.items())]
        kept = draw.sample(kept, min(sample or len(kept), len(kept)))
        for table in ("mutation_specs", "work_items"):
            marks = ",".join("?" * len(kept))
            database.execute(f"delete from {table} where job_id not in ({marks})", kept)


def report(session: Path) -> None:
    query = (
        "select test_outcome, module_path, start_pos_row, operator_name, diff "
        "from mutation_specs join work_results using (job_id)"
    )
    with sqlite3.connect(session) as database:
        results = database.execute(query).fetchall()
    survived = [row for row in results if str(row[0]).endswith("SURVIVED")]
    for _, module, line, operator, diff in survived:
        changed = [text for text in (diff or "").splitlines() if text[:1] in "+-"]
        print(f"\n{module}:{line} {operator}", *changed[2:], sep="\n  ")
    killed = len(results) - len(survived)
    print(f"\n{killed} of {len(results)} mutants killed: {killed / len(results):.0%}")


if __name__ == "__main__":
    main()
