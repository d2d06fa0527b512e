"""
Draw every id of every library, for its card.

    python -m benchmarks gallery                     all libraries
    python -m benchmarks gallery gymnax pgx          these

A process of its own draws each library. Pictures go to `docs/libraries/gallery` as they come, and
the reasons why an id is not drawn to `benchmarks/verdicts/gallery.json`. What is in either is not
drawn again, unless `--again` is given, so that an interrupted run goes on. Brax and MuJoCo
Playground need OpenGL: without a display, set `MUJOCO_GL=egl`.

Where `python -m benchmarks scores` left the parameters of a policy, a film of it takes the place of
the picture: `NAME-trained.webp`.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import jax

import envrax
from benchmarks import scores
from benchmarks.libraries import LIBRARIES, VERDICTS, built, first_line, visit_each

DOCS = Path(__file__).parents[1] / "docs/libraries"
WHY = VERDICTS / "gallery.json"
# Of each library every first, second, ... id moves; the others are stills.
EVERY = {
    **{
        "classic": 1,
        "gymnax": 1,
        "brax": 3,
        "jumanji": 2,
        "playground": 5,
        "navix": 14,
        "craftax": 2,
    },
    **{"pgx": 3, "xminigrid": 15, "kinetix": 10, "jaxmarl": 4},
    **{"octax": 6, "popgym_arcade": 6, "factoriax": 3, "gymnasium": 1},
}
# A still shows the state after so many steps; physics takes long to compile, and shows the first.
STEPS = {"brax": 0, "playground": 0, "kinetix": 0}
# MuJoCo's free camera stands far away from these: their middle is shown.
FAR = "ant", "halfcheetah", "hopper", "humanoid", "humanoidstandup", "swimmer", "walker2d"
# A film of a trained policy shows so many frames, one of every second, third, ... step.
TRAINED_FRAMES = 60
STRIDES = {"brax": 4, "playground": 4, "kinetix": 3, "craftax": 2}
SIDE = 160
FRAMES = 40
MILLISECONDS = 100
STILL, MOVING = {"quality": 70, "method": 6}, {"quality": 45, "method": 6, "minimize_size": True}


def main() -> None:
    # JAXtari's sprites are not ours to show.
    drawn = [library for library in LIBRARIES if library != "jaxtari"]
    visit_each("gallery", __doc__, draw_library, forget_library, drawn)


def forget_library(library: str) -> None:
    """Remove the pictures of a library, and the reasons."""
    for id in built(library):
        for path in (path_of(id), trained_path(id)):
            path.unlink(missing_ok=True)
        _set_reason(id, "")


def draw_library(library: str, end: float) -> None:
    """Draw what can be built of a library and has neither a picture nor a reason yet."""
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")  # pygame complains of missing loudspeakers
    for number, id in enumerate(built(library)):
        is_trained = scores.params_path(id).exists()
        path = trained_path(id) if is_trained else path_of(id)
        if trained_path(id).exists() or path.exists() or time.monotonic() > end:
            continue
        if id in reasons():
            continue
        _set_reason(id, "the process ended")  # what stays if it does
        begin = time.perf_counter()
        moving = is_trained or number % EVERY.get(library, 1) == 0
        try:
            frames = trained(id) if is_trained else play(id, _n_steps(library, moving))
        except Exception as error:
            none = "does not implement render" in str(error)
            _set_reason(id, "the library does not draw it" if none else first_line(error))
            print(id, reasons()[id], flush=True)
            continue
        save(path, frames if moving else frames[-1:])
        if is_trained:
            path_of(id).unlink(missing_ok=True)
        _set_reason(id, "")
        print(id, path.stat().st_size, f"{time.perf_counter() - begin:.0f} s", flush=True)


def _n_steps(library: str, moving: bool) -> int:
    return FRAMES if moving else STEPS.get(library, 10)


def play(id: str, steps: int) -> list[Any]:
    """Frames of so many random steps, and of the states that episodes begin in."""
    env = envrax.make(id, jit_compile=False)

    def draw(state: Any, obs: Any, rng: Any) -> Any:
        mask, space = env.action_mask(state), env.action_space
        return space.sample(rng) if mask is None else space.sample(rng, mask)

    return _frames(env, draw, steps, 1)


def trained(id: str) -> list[Any]:
    """Frames of the policy that `python -m benchmarks scores` trained."""
    from benchmarks import learners

    [task] = scores.tasks([id])
    learner = learners.LEARNERS[task.algorithm](task)
    env, like = learner.env, learner.params(jax.eval_shape(learner.init, 0))
    policy_state = envrax.load(scores.params_path(id), like), False

    def act(state: Any, obs: Any, rng: Any) -> Any:
        return learner.policy(policy_state, obs, rng, env.action_mask(state))[0]

    stride = STRIDES.get(task.library, 1)
    return _frames(env, act, stride * TRAINED_FRAMES, stride)


def _frames(env: Any, act: Any, steps: int, stride: int) -> list[Any]:
    """Frames of every `stride`-th step, in which an episode that ended begins anew."""
    reset = jax.jit(env.reset)
    step = jax.jit(lambda state, obs, rng: env.step(state, act(state, obs, rng))[:2])
    obs, state = reset(jax.random.key(0))
    frames = [env.render(state)]
    for t in range(steps):
        rng = jax.random.fold_in(jax.random.key(1), t)
        obs, state = reset(rng) if state.done else step(state, obs, rng)
        if (t + 1) % stride == 0:
            frames.append(env.render(state))
    return frames


def save(path: Path, frames: list[Any]) -> None:
    """Write a picture, or a film if there are several frames, of `SIDE` pixels."""
    from PIL import Image

    images = [Image.fromarray(frame) for frame in frames]
    if path.parent.name == "brax" and path.stem.removesuffix("-trained") in FAR:
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


def path_of(id: str) -> Path:
    library, _, name = id.partition("/")
    return DOCS / "gallery" / library / f"{name.replace('/', '-')}.webp"


def trained_path(id: str) -> Path:
    path = path_of(id)
    return path.with_stem(f"{path.stem}-trained")


def reasons() -> dict[str, str]:
    """Why ids are not drawn, by id."""
    return json.loads(WHY.read_text()) if WHY.exists() else {}


def _set_reason(id: str, why: str) -> None:
    every = {**reasons(), id: why}
    kept = {name: every[name] for name in sorted(every) if every[name]}
    WHY.write_text(json.dumps(kept, indent=1) + "\n")
