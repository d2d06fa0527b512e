# pyright: basic, reportMissingImports=false
"""All libraries: ids, wrong input, `check_env`, waivers, images, bridges."""

import importlib
import re
from functools import cache
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import imageio.v3
import jax
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from interop.by_hand import check_ids_and_wrong_input, check_waivers, make
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import envrax
from benchmarks.pages import TABLES
from envrax.interop import to_gymnasium
from envrax.testing.key_usage import reused_key
from envrax.wrappers import RecordVideo

pytestmark = pytest.mark.usefixtures("sprites")

# One of its ids, and one that is misspelt.
LIBRARIES = {
    "brax": ("inverted_pendulum", "inverted_pendulun"),
    "craftax": ("Craftax-Classic-Symbolic-v1", "Craftax-Classic-Symbolic-v2"),
    "factoriax": ("MinerBootstrap-v1", "MinerBotstrap-v1"),
    "gymnasium": ("phys2d/CartPole-v1", "phys2d/CartPole-v2"),
    "gymnax": ("CartPole-v1", "CartPol-v1"),
    "jaxmarl": ("switch_riddle", "switch_ridle"),
    "jaxtari": ("pong", "pongg"),
    "jumanji": ("Snake-v1", "Snake-v2"),
    "navix": ("Navix-Empty-5x5-v0", "Navix-Empty-5x5-v1"),
    "octax": ("brix", "brixx"),
    "pgx": ("tic_tac_toe", "tictactoe"),
    "playground": ("PendulumSwingup", "PendulumSwingUp"),
    "xminigrid": ("MiniGrid-Unlock", "MiniGrid-Unlok"),
}
kept = cache(make)


def test_the_table_says_which_jax_each_package_allows() -> None:
    row = r"^\| `(\w+)[\w-]*` \| .*?`(\w*\1[\w-]*).*? \| ([^|]+) \| yes \|$"
    rows = re.findall(row, "\n".join(TABLES["extras"]()), re.M)
    assert len(rows) == 14
    for _, package, shown in rows:
        needed = [x for x in map(Requirement, requires(package) or ()) if x.name == "jax"]
        own = [x.specifier for x in needed if not x.marker or x.marker.evaluate()]
        said = SpecifierSet("" if shown == "any" else shown.strip("`"))
        for jax_version in ("0.9.0", "0.9.1", "0.11.2", "0.12.0"):
            allowed = all(x.contains(jax_version) for x in own)
            assert said.contains(jax_version) == allowed, (package, jax_version)


@pytest.mark.parametrize("library", LIBRARIES)
def test_ids_and_wrong_input(library: str) -> None:
    check_ids_and_wrong_input(library, *LIBRARIES[library])


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("craftax/Craftax-Classic-Symbolic-v1", "day_length"),
        ("gymnax/CartPole-v1", "gravity"),
        ("xminigrid/MiniGrid-Unlock", "view_size"),
    ],
)
def test_a_parameter_must_be_a_number(name: str, field: str) -> None:
    with pytest.raises(TypeError, match=field):
        make(name, params={field: "heavy"})
    with pytest.raises(TypeError, match=field):
        envrax.with_config(kept(name), params={field: "heavy"})


def test_an_error_under_x64_names_it() -> None:
    """pgx fails there without envrax as well."""
    with jax.enable_x64(True), pytest.raises((TypeError, ValueError), match="`jax_enable_x64`"):
        make("pgx/tic_tac_toe").reset(jax.random.key(0))


# Other kinds of observations, where the library has bounds; a function by its name.
OBSERVED: list[tuple[str, dict[str, Any]]] = [
    *(
        ("navix/Navix-DoorKey-5x5-v0", {"observation_fn": name})
        for name in ("none", "categorical", "categorical_first_person", "symbolic")
    ),
    ("navix/Navix-DoorKey-5x5-v0", {"observation_fn": "symbolic_first_person"}),
    ("navix/Navix-Empty-5x5-v0", {"observation_fn": "rgb"}),
    ("navix/Navix-Empty-5x5-v0", {"observation_fn": "rgb_first_person"}),
    ("gymnax/FourRooms-misc", {"use_visual_obs": True}),
    ("gymnax/MetaMaze-misc", {"rf_size": 5}),
    ("gymnax/Breakout-MinAtar", {"use_minimal_action_set": False}),
    ("jumanji/LevelBasedForaging-v0", {"grid_observation": True}),
    ("xminigrid/MiniGrid-DoorKey-5x5", {"view_size": 3}),
    ("jaxmarl/HeuristicEnemySMAX", {"observation_type": "conic"}),
    ("jaxmarl/coin_game", {"cnn": False}),
]


@pytest.mark.parametrize(("name", "options"), OBSERVED, ids=str)
def test_observations_are_in_the_space(name: str, options: dict[str, Any]) -> None:
    if name.startswith("navix/"):
        functions = importlib.import_module("navix").observations
        options = {"observation_fn": getattr(functions, options["observation_fn"])}
    env = make(name, options=options)
    start = envrax.start(env, jax.random.key(0))
    played = envrax.rollout(env, None, start, 60)[1]
    seen = jax.tree.map(lambda *x: np.concatenate(x), played.obs, played.next_obs)
    assert seen in env.observation_space.batch(120)


# Of each library, and one more where it breaks rules in some of its environments, or has worlds.
# Craftax and Playground compile for half a minute: `python -m benchmarks table` checks them.
CHECKED = [
    *("brax/fast", "gymnax/CartPole-v1", "gymnax/DeepSea-bsuite", "jaxmarl/switch_riddle"),
    *("jaxmarl/MPE_simple_crypto_v3", "jumanji/Snake-v1", "jumanji/LevelBasedForaging-v0"),
    "jaxtari/pong",
    *("navix/Navix-Empty-5x5-v0", "navix/Navix-FourRooms-7x7-v0"),
    *("octax/pong", "octax/target_shooter1", "octax/tetris"),
    *("pgx/minatar-breakout", "pgx/tic_tac_toe", "xminigrid/MiniGrid-Unlock"),
]
WORLDS = {"jumanji/LevelBasedForaging-v0": {"agents": "all"}, "pgx/tic_tac_toe": {"player": "all"}}


@pytest.mark.parametrize("name", CHECKED)
def test_only_the_waived_rules_are_broken(name: str) -> None:
    env = make(name, options=WORLDS[name]) if name in WORLDS else kept(name)
    check_waivers(env)


@pytest.mark.parametrize(
    "name",
    [
        *("jaxmarl/MPE_simple_facmac_v1", "jaxmarl/storm_2p", "jumanji/FlatPack-v0"),
        *("navix/Navix-DoorKey-Random-5x5-v0", "navix/Navix-GoToDoor-5x5-v0"),
        *("navix/Navix-KeyCorridorS3R1-v0", "navix/Navix-SimpleCrossingS9N1-v0"),
    ],
)
def test_a_waived_key_is_used_twice_in_the_library(name: str) -> None:
    """To be dropped once the library uses each key once."""
    env, key = kept(name), jax.random.key(0)
    assert set(env.unwrapped.waivers) == {"keys_are_used_once", "calls_share_no_key"}
    state = jax.eval_shape(env.reset, key)[1]
    action = jax.eval_shape(env.action_space.sample, key)
    calls = [(env.reset, key), (env.step, state, action)]
    assert any(reused_key(*call) is not None for call in calls)


DRAWN: dict[str, tuple[int, int, int] | None] = {
    "brax/inverted_pendulum": (240, 320, 3),
    "craftax/Craftax-Classic-Symbolic-v1": None,
    "factoriax/EasyRocket-v1": None,
    "gymnasium/phys2d/CartPole-v1": (400, 600, 3),
    "gymnax/CartPole-v1": None,
    "gymnax/Breakout-MinAtar": None,
    "gymnax/Catch-bsuite": None,
    "jaxmarl/MPE_simple_spread_v3": None,
    "jaxmarl/storm_2p": None,
    "jaxmarl/overcooked_v2": None,
    "jaxmarl/HeuristicEnemySMAX": None,
    "jaxtari/pong": (210, 160, 3),
    "jumanji/Snake-v1": (1000, 1000, 3),
    "navix/Navix-DistShift1-v0": (56, 72, 3),
    "pgx/minatar-breakout": None,
    "pgx/tic_tac_toe": None,
    "playground/PendulumSwingup": (240, 320, 3),
    "xminigrid/MiniGrid-DoorKey-5x5": (160, 160, 3),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_video_shows_the_drawn_images(name: str, tmp_path: Path) -> None:
    """MP4 keeps colours roughly, and pads images of an odd size."""
    env, drawn = kept(name), []
    try:
        with RecordVideo(env, output_dir=tmp_path) as film:
            _, state = film.reset(jax.random.key(0))
            drawn.append(env.render(state))
            for key in jax.random.split(jax.random.key(1), 2):
                action = env.action_space.sample(key, env.action_mask(state))
                _, state, *_ = film.step(state, action)
                drawn.append(env.render(state))
    except NotImplementedError as error:  # a machine without OpenGL
        assert "MUJOCO_GL" in str(error)
        return
    (file,) = tmp_path.iterdir()
    frames = imageio.v3.imread(file, plugin="FFMPEG")
    assert len(frames) == len(drawn)
    for frame, image in zip(frames, drawn, strict=True):
        assert image.dtype == np.uint8 and image.shape == (DRAWN[name] or image.shape)
        height, width, _ = image.shape
        assert np.abs(frame[:height, :width].astype(float) - image).mean() < 12
    assert len(np.unique(drawn[-1].reshape(-1, 3), axis=0)) > 2  # a picture, and not a blank


# A board with legal moves, a dict.
@pytest.mark.parametrize("name", ["pgx/tic_tac_toe", "jumanji/Snake-v1"])
def test_the_checker_of_gymnasium_passes(name: str) -> None:
    check_env(to_gymnasium(kept(name)), skip_render_check=True)


SECOND = """
from conftest import count_compilations
import jax
import envrax
key = jax.random.key(0)
with count_compilations() as counted:
    env = envrax.make_vec({id!r}, 2)
    envrax.rollout(env, None, envrax.start(env, key), 3)
    envrax.evaluate(env, None, key, 2, max_steps=5)
print(counted.count - counted.hits)
"""


@pytest.mark.parametrize("id", ["jumanji/Maze-v0", "gymnax/CartPole-v1"])
def test_a_second_process_compiles_nothing_that_the_library_compiles(
    id: str, run_python: Any, tmp_path: Path
) -> None:
    """Also of what it computes while it is built."""
    first, second = (run_python(SECOND.format(id=id), ENVRAX_CACHE_DIR=str(tmp_path)) for _ in "12")
    assert int(first) > int(second) == 0
