"""
Words by which a page is found that it does not say, for mkdocs (`hooks` in mkdocs.yml).

The search of the theme ranks tags above titles, and titles above texts.
"""

from typing import Any

TAGS = {
    "advanced/domain-randomization.md": ["curriculum", "harder tasks"],
    "advanced/resets.md": ["reset some slots"],
    "advanced/speed.md": ["which N", "how many environments", "number of slots"],
    "traps.md": ["recompile", "retrace", "slow compilation"],
    "trainers/simulators.md": ["own simulator", "C++", "callback"],
    "tutorials/rendering.md": ["no display", "headless"],
    "tutorials/make.md": ["time limit"],
    "advanced/saving.md": ["resume", "checkpoint"],
    "advanced/masks.md": ["action mask", "invalid actions"],
    "tutorials/rollouts.md": [
        "error bars",
        "confidence interval",
        "compare two policies",
        "same seeds",
        "paired",
    ],
}


def on_files(files: Any, **_: Any) -> Any:
    if missing := [path for path in TAGS if not files.get_file_from_path(path)]:
        raise FileNotFoundError(f"expected the pages that .ci/search.py names; {missing} are gone")
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> None:
    if tags := TAGS.get(page.file.src_uri):
        page.meta["tags"] = tags
