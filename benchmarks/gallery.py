"""
Draw every id of every library, and write the page that shows them.

    python -m benchmarks gallery                     all libraries
    python -m benchmarks gallery gymnax pgx          these
    python -m benchmarks gallery --page              the page, from the pictures so far

A process of its own draws each library. Pictures go to `docs/libraries/gallery` as they come, and
the reasons why an id is not drawn to `benchmarks/verdicts/gallery.json`. What is in either is not
drawn again, unless `--again` is given, so that an interrupted run goes on. Brax and MuJoCo
Playground need OpenGL: without a display, set `MUJOCO_GL=egl`.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

import envrax
from benchmarks.libraries import LIBRARIES, VERDICTS, built, first_line, visit_each

DOCS = Path(__file__).parents[1] / "docs/libraries"
PAGE = DOCS / "gallery.md"
WHY = VERDICTS / "gallery.json"
# Of each library every first, second, ... id moves; the others are stills.
EVERY = {
    **{"gymnax": 1, "brax": 3, "jumanji": 2, "playground": 5, "navix": 14, "craftax": 2},
    **{"pgx": 3, "xminigrid": 15, "kinetix": 10, "jaxmarl": 4},
    **{"octax": 6, "popgym_arcade": 6, "factoriax": 3, "gymnasium": 1},
}
# A still shows the state after so many steps; physics takes long to compile, and shows the first.
STEPS = {"brax": 0, "playground": 0, "kinetix": 0}
# MuJoCo's free camera stands far away from these: their middle is shown.
FAR = "ant", "halfcheetah", "hopper", "humanoid", "humanoidstandup", "swimmer", "walker2d"
SIDE = 160
FRAMES = 40
MILLISECONDS = 100
STILL, MOVING = {"quality": 70, "method": 6}, {"quality": 45, "method": 6, "minimize_size": True}
HEAD = """# Gallery

Made by `python -m benchmarks gallery`: every id that can be drawn, as `env.render(state)` draws it.
Moving pictures show uniformly random legal actions. [The table](table.md) has spaces and limits.
"""


def main() -> None:
    # JAXtari's sprites are not ours to show.
    drawn = [library for library in LIBRARIES if library != "jaxtari"]
    visit_each("gallery", __doc__, draw_library, forget_library, drawn)
    PAGE.write_text("\n".join(page()) + "\n")


def forget_library(library: str) -> None:
    """Remove the pictures of a library, and the reasons."""
    for id in built(library):
        path_of(id).unlink(missing_ok=True)
        _set_reason(id, "")


def draw_library(library: str, end: float) -> None:
    """Draw what can be built of a library and has neither a picture nor a reason yet."""
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")  # pygame complains of missing loudspeakers
    for number, id in enumerate(built(library)):
        path = path_of(id)
        if path.exists() or id in reasons() or time.monotonic() > end:
            continue
        _set_reason(id, "the process ended")  # what stays if it does
        begin = time.perf_counter()
        moving = number % EVERY[library] == 0
        try:
            frames = play(id, FRAMES if moving else STEPS.get(library, 10))
        except Exception as error:
            none = "does not implement render" in str(error)
            _set_reason(id, "the library does not draw it" if none else first_line(error))
            print(id, reasons()[id], flush=True)
            continue
        save(path, frames if moving else frames[-1:])
        _set_reason(id, "")
        print(id, path.stat().st_size, f"{time.perf_counter() - begin:.0f} s", flush=True)


def play(id: str, steps: int) -> list[Any]:
    """Frames of so many random steps, and of the states that episodes begin in."""
    env = envrax.make(id, jit_compile=False)
    frames: list[Any] = []

    @jax.jit
    def step(state: Any, rng: Any) -> Any:
        mask = env.action_mask(state)
        draw = env.action_space.sample
        return env.step(state, draw(rng) if mask is None else draw(rng, mask))[1]

    reset = jax.jit(env.reset)
    _, state = reset(jax.random.key(0))
    frames.append(env.render(state))
    for t in range(steps):
        rng = jax.random.fold_in(jax.random.key(1), t)
        state = reset(rng)[1] if state.done else step(state, rng)
        frames.append(env.render(state))
    return frames


def save(path: Path, frames: list[Any]) -> None:
    """Write a picture, or a film if there are several frames, of `SIDE` pixels."""
    from PIL import Image

    images = [Image.fromarray(frame) for frame in frames]
    if path.parent.name == "brax" and path.stem in FAR:
        width, height = images[0].size
        middle = 0.25 * width, 0.13 * height, 0.75 * width, 0.63 * height
        images = [image.crop(tuple(map(round, middle))) for image in images]
    factor = SIDE / max(images[0].size)
    size = tuple(max(1, round(factor * side)) for side in images[0].size)
    way = Image.Resampling.NEAREST if factor > 1 else Image.Resampling.LANCZOS
    first, *rest = [image.resize(size, way) for image in images]
    path.parent.mkdir(parents=True, exist_ok=True)
    film = {"save_all": True, "append_images": rest, "duration": MILLISECONDS, "loop": 0}
    first.save(path, **{**film, **MOVING} if rest else STILL)


def page() -> Iterator[str]:
    """The lines of the page."""
    yield HEAD
    for library in LIBRARIES:
        drawn = [id for id in built(library) if path_of(id).exists()]
        if drawn:
            yield f"## {library}\n\n" + '<div class="gallery" markdown>\n'
        for id in drawn:
            picture = path_of(id).relative_to(DOCS)
            yield f"- ![{id}]({picture})`{id.partition('/')[2]}`"
        if drawn:
            yield "\n</div>\n"
    yield "## Not drawn\n\nIds that can be built, and why there is no picture of them.\n"
    yield "| id | |\n|---|---|"
    for id, why in sorted(reasons().items()):
        yield f"| `{id}` | {why.replace('|', ' ')} |"


def path_of(id: str) -> Path:
    library, _, name = id.partition("/")
    return DOCS / "gallery" / library / f"{name.replace('/', '-')}.webp"


def reasons() -> dict[str, str]:
    """Why ids are not drawn, by id."""
    return json.loads(WHY.read_text()) if WHY.exists() else {}


def _set_reason(id: str, why: str) -> None:
    every = {**reasons(), id: why}
    kept = {name: every[name] for name in sorted(every) if every[name]}
    WHY.write_text(json.dumps(kept, indent=1) + "\n")
