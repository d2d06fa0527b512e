# pyright: basic, reportMissingImports=false
"""JAXtari by name: equal to JAXtari stepped by hand; its observations, mods, lives and sprites."""

import importlib
import os
import pickle
import zlib
from pathlib import Path, PurePath
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interop.by_hand import by_hand, check_waivers, equal, follow, make, observes

import envrax
from benchmarks.libraries import verdicts
from envrax.__main__ import main
from envrax.interop import as_dicts
from envrax.interop.jaxtari import RULES_READ_SPRITES, SPRITE, rectangle, rectangles

pytestmark = pytest.mark.usefixtures("sprites")

# Those with a verdict in the table of ids; CI takes a sample of them.
CHECKED = [id.partition("/")[2] for id in verdicts("jaxtari")]
SAMPLE = "basicmath", "freeway", "pong"  # the quickest


@pytest.mark.parametrize(
    "game", [pytest.param(x, marks=[] if x in SAMPLE else pytest.mark.exhaustive) for x in CHECKED]
)
def test_only_the_waived_rules_are_broken(game: str) -> None:
    check_waivers(make(f"jaxtari/{game}"))


# Some have lives, some keep a key in their state.
BY_HAND = "breakout", "freeway", "pong", "skiing", "surround", "tennis"


@pytest.mark.parametrize("game", BY_HAND)
def test_200_steps_are_those_of_jaxtari(adapter: Any, game: str) -> None:
    env = make(f"jaxtari/{game}", max_steps=60)
    peer = env.unwrapped.peer

    def begin(key: Any) -> Any:
        obs, inner = peer.reset(jax.random.key_data(key))
        return as_dicts(obs), inner

    def advance(key: Any, inner: Any, action: Any) -> Any:
        obs, inner, reward, done, info = peer.step(inner, action)
        lives = getattr(inner, "lives", int(game == "surround"))
        said = {"terminated": done, "lives": lives, **as_dicts(info)}
        return as_dicts(obs), inner, reward, said

    assert follow(env, begin, advance) == {"truncated"}


# What `lives()` of ALE (ale-py 0.12) says at the first frame of a game; Galaxian from frame 62 on,
# and the games of a casino as its Casino. JAXtari has another number of lives in `OTHERS`, and
# Slot Machine and Tron are not in ALE.
ALE_LIVES = {
    0: ("boxing enduro fishingderby freeway journeyescape lasergates pong skiing tennis tetris"),
    1: (
        "backgammon basicmath blackjack casinoblackjack casinofivestudpoker"
        " casinopokersolitaire flagcapture humancannonball miniaturegolf othello"
        " spacewar surround videocheckers videochess videocube wordzapper"
    ),
    2: ("donkeykong"),
    3: (
        "alien asterix beamrider berzerk centipede choppercommand galaxian gopher"
        " kangaroo kingkong mspacman namethisgame roadrunner sirlancelot spaceinvaders"
        " videopinball wizardofwor"
    ),
    4: ("assault asteroids bankheist frostbite pacman qbert seaquest venture yarsrevenge"),
    5: ("breakout timepilot upndown"),
    6: ("atlantis gravitar montezumarevenge"),
    9: ("hauntedhouse"),
}
OTHERS = {
    **{"airraid": 3, "amidar": 3, "hangman": 11, "kaboom": 3, "klax": 3, "phoenix": 4},
    **{"riverraid": 3, "slotmachine": 0, "tron": 5, "turmoil": 5},
}
LIVES = {game: n for n, games in ALE_LIVES.items() for game in games.split()} | OTHERS
QUICK_LIVES = "atlantis", "riverraid"  # others are below


def test_every_game_has_a_number_of_lives(adapter: Any) -> None:
    assert LIVES.keys() == adapter.GAME_MODULES.keys()


@pytest.mark.parametrize(
    "game",
    [pytest.param(x, marks=[] if x in QUICK_LIVES else pytest.mark.exhaustive) for x in LIVES],
)
def test_lives_are_those_of_ale_at_the_first_frame(adapter: Any, game: str) -> None:
    env = make(f"jaxtari/{game}")
    _, state = jax.jit(env.reset)(jax.random.key(0))
    *_, info = jax.jit(env.step)(state, 0)
    assert (info["lives"].dtype, info["lives"].shape) == (jnp.int32, ())
    assert info["lives"] == LIVES[game]


@pytest.mark.parametrize(
    ("game", "fields", "lives", "over"),
    [
        ("breakout", {"lives": 3}, 3, False),
        ("gopher", {"carrots_present": [0, 1, 0]}, 1, False),
        ("gopher", {"carrots_present": [0, 0, 0]}, 0, True),
        ("surround", {"score0": 9}, 1, False),
        ("surround", {"score0": 10, "substep": 14}, 0, True),
        ("basicmath", {"numberProb": 10}, 0, True),
        ("videopinball", {"lives_lost": 3}, 1, False),
        ("pong", {"enemy_score": 20, "ball_x": 158, "ball_vel_x": 1, "step_counter": 100}, 0, True),
    ],
)
def test_lives_that_are_lost(
    adapter: Any, game: str, fields: dict[str, Any], lives: int, over: bool
) -> None:
    """As ALE counts them, the last one is 1, and the end of the game is 0."""
    env = make(f"jaxtari/{game}")
    _, state = jax.jit(env.reset)(jax.random.key(0, impl="rbg"))
    assert jax.random.key_impl(state.rng) == "rbg"  # a key of another kind is taken
    *_, info = jax.jit(env.step)(edited(state, fields), 0)
    assert (int(info["lives"]), bool(info["terminated"])) == (lives, over)
    assert not info["truncated"]


def edited(state: Any, fields: dict[str, Any]) -> Any:
    """The state with other values in the fields of the library's own."""
    inner = state.inner
    cast = {k: jnp.asarray(x, getattr(inner, k).dtype) for k, x in fields.items()}
    return state.replace(inner=inner.replace(**cast))


def test_the_limit_is_that_of_atari(adapter: Any) -> None:
    env = make("jaxtari/pong")
    assert env.config.max_steps == 108_000
    _, state = jax.jit(env.reset)(jax.random.key(0))
    *_, info = jax.jit(env.step)(state.replace(step=jnp.int32(107_999)), 0)
    assert info["truncated"] and not info["terminated"]


@pytest.mark.parametrize(
    ("game", "frames", "before", "won"),
    [
        ("skiing", 18_000, {"step_count": 17_998}, {"gates_seen": 20}),
        ("surround", 15_000, {"time": 999, "substep": 13}, {"score0": 10}),
    ],
)
def test_a_limit_of_jaxtari_truncates(
    adapter: Any, game: str, frames: int, before: dict[str, int], won: dict[str, int]
) -> None:
    """JAXtari has one flag for its own limit and for the end of the game."""
    env = make(f"jaxtari/{game}")
    assert env.config.max_steps == frames
    with pytest.raises(ValueError, match=f"max_steps` of at most {frames}"):
        make(f"jaxtari/{game}", max_steps=frames + 1)
    step = jax.jit(env.step)
    _, start = jax.jit(env.reset)(jax.random.key(0))
    for changes, expected in (({}, (False, True)), (won, (True, True))):
        _, state, _, done, _ = step(edited(start.replace(step=jnp.int32(frames - 2)), before), 0)
        assert not done
        *_, done, info = step(edited(state, changes), 0)
        assert done and (bool(info["terminated"]), bool(info["truncated"])) == expected


def test_pixels_are_what_jaxtari_draws(adapter: Any) -> None:
    kinds = "objects", "pixels", "both"
    envs = {kind: make("jaxtari/breakout", options={"observation": kind}) for kind in kinds}
    peer = envs["objects"].unwrapped.peer
    played = {}
    for kind, env in envs.items():
        start = envrax.start(envrax.VecEnv(env, 2), jax.random.key(0))
        played[kind] = envrax.rollout(envrax.VecEnv(env, 2), None, start, 30)[1]
        assert played[kind].obs in env.observation_space.batch(2).batch(30)
    equal(played["both"].obs, {k: played[k].obs for k in ("objects", "pixels")})
    _, state = envs["pixels"].reset(jax.random.key(5))
    image = by_hand(peer.render)(state.inner)
    assert image.shape == (210, 160, 3) and len(np.unique(image.reshape(-1, 3), axis=0)) > 2
    for kind, env in envs.items():
        np.testing.assert_array_equal(env.render(state), image)
        assert observes(env) == (kind == "pixels")


def test_mods(adapter: Any) -> None:
    """The lazy enemy of Pong moves only while the ball flies towards it."""
    env = make("jaxtari/pong", options={"mods": ["lazy_enemy"]})
    by_wrap = adapter.wrap(env.unwrapped.peer, max_steps=9)
    assert by_wrap.config.max_steps == 9
    _, state = make("jaxtari/pong").reset(jax.random.key(0))
    inner = state.inner.replace(step_counter=jnp.int32(65), ball_y=jnp.int32(60))
    state = state.replace(inner=inner.replace(ball_vel_x=jnp.int32(1)))
    moved = [x.step(state, 0)[1].inner for x in (make("jaxtari/pong"), env, by_wrap)]
    assert [int(x.enemy_y) for x in moved] == [113, 115, 115]


def test_a_subclass_of_a_game_has_its_lives(adapter: Any) -> None:
    module = importlib.import_module("jaxtari.games.jax_riverraid")
    own = adapter.wrap(type("Own", (module.JaxRiverraid,), {})(), observation="both")
    assert own.config.id == "riverraid" and set(own.observation_space) == {"objects", "pixels"}
    _, state = jax.jit(own.reset)(jax.random.key(0))
    assert jax.jit(own.step)(state, 0)[-1]["lives"] > 0


def test_refusals(adapter: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="one of objects, pixels, both; got pixel"):
        make("jaxtari/pong", options={"observation": "pixel"})
    with pytest.raises(ValueError, match="lazy_enemy"):
        make("jaxtari/pong", options={"mods": ["lazy"]})
    with pytest.raises(ValueError, match="expected a list of `mods`; got 'lazy_enemy'"):
        make("jaxtari/pong", options={"mods": "lazy_enemy"})
    with pytest.raises(ValueError, match="expected no `mods`"):
        make("jaxtari/tetris", options={"mods": ["lazy_enemy"]})
    wrappers = importlib.import_module("jaxtari.wrappers")
    wrapped = wrappers.AtariWrapper(make("jaxtari/pong").unwrapped.peer)
    with pytest.raises(TypeError, match="without the library's wrappers"):
        adapter.wrap(wrapped)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(ValueError) as missing:
        make("jaxtari/pong")
    assert str(missing.value) == (
        f"jaxtari/pong: expected the sprites of JAXtari; got none in {tmp_path / 'jaxtari'}. "
        "Install them with `python -m jaxtari.install_sprites`, or draw without them by "
        '`options={"sprites": "rectangles"}`.'
    )
    (tmp_path / "jaxtari").mkdir()
    (tmp_path / "jaxtari/.alternative_sprites_installed").touch()
    with pytest.raises(ValueError, match=r"got no file .*npy\. Install them with"):
        make("jaxtari/pong")


def test_rectangles_draw_a_game_without_sprites(
    adapter: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The game is the same as without images; no file is written, no function stays replaced."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    functions = np.load, jnp.load, os.path.exists, os.listdir
    played = []
    for observation in ("objects", "both"):
        options = {"sprites": "rectangles", "observation": observation}
        env = pickle.loads(pickle.dumps(make("jaxtari/pong", options=options)))
        start = envrax.start(envrax.VecEnv(env, 2), jax.random.key(0))
        played.append(envrax.rollout(envrax.VecEnv(env, 2), None, start, 30))
    (end, objects), (end_of_both, both) = played
    equal((end.env_state, objects.obs), (end_of_both.env_state, both.obs["objects"]))
    image = both.obs["pixels"][-1, 0]
    assert image.shape == (210, 160, 3) and len(np.unique(image.reshape(-1, 3), axis=0)) > 2
    assert functions == (np.load, jnp.load, os.path.exists, os.listdir)
    assert not list(tmp_path.iterdir())


DRAWN = [x for x in LIVES if x not in RULES_READ_SPRITES]


@pytest.mark.parametrize(
    "game", [pytest.param(x, marks=[] if x == "pong" else pytest.mark.exhaustive) for x in DRAWN]
)
def test_the_rules_of_a_game_that_is_drawn_read_no_sprites(adapter: Any, game: str) -> None:
    """Its programs are equal where sprites have another size, holes, and are black in places."""

    def other(file: PurePath) -> np.ndarray:
        image = rectangle(file)
        if image.shape[:2] == SPRITE:
            image = np.resize(image, (11, 5, 4))
        hidden = np.random.default_rng(zlib.crc32(str(file).encode())).random(image.shape[:-1])
        image[hidden < 0.5, :3] = 0
        image[hidden < 0.25, 3] = 0
        image[..., :2, :2, :] = rectangle(file)[..., :2, :2, :]  # colours that the game looks up
        return image

    def programs() -> list[str]:
        env = make(f"jaxtari/{game}", options={"sprites": "rectangles"})
        peer = env.unwrapped.peer
        reset = jax.jit(lambda key: peer.reset(key)).lower(jax.random.key_data(jax.random.key(0)))
        step = jax.jit(lambda inner: peer.step(inner, 0)).lower(reset.out_info[1])
        return [reset.as_text(), step.as_text()]

    with jax.numpy_dtype_promotion("standard"):
        expected = programs()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(adapter, "rectangles", lambda folder: rectangles(folder, other))
            assert programs() == expected


def test_rectangles_are_refused(adapter: Any) -> None:
    options: dict[str, Any] = {"sprites": "rectangles"}
    with pytest.raises(ValueError) as refused:
        make("jaxtari/venture", options=options)
    assert str(refused.value) == (
        "jaxtari/venture: expected the sprites of JAXtari, since the rules of the game read them; "
        "got the option `sprites` of 'rectangles'. Install them with `python -m "
        "jaxtari.install_sprites`."
    )
    with pytest.raises(ValueError, match="expected no `mods` with the option `sprites`"):
        make("jaxtari/pong", options={**options, "mods": ["lazy_enemy"]})
    with pytest.raises(ValueError, match="one of installed, rectangles; got squares"):
        make("jaxtari/pong", options={"sprites": "squares"})


def test_the_command_line_says_that_sprites_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = "sprites missing: `python -m jaxtari.install_sprites`\n"
    for home, is_missing in ((None, False), (tmp_path, True)):
        if home:
            monkeypatch.setenv("XDG_DATA_HOME", str(home))
        for command in (["find", "pong"], ["list"]):
            assert main(command) == 0
            lines = capsys.readouterr().out.splitlines(keepends=True)
            found = {line.split("/")[0].split()[0] for line in lines if line.endswith(missing)}
            assert found == ({"jaxtari"} if is_missing else set())


def test_missing_sprites_are_found_without_importing_the_library(run_python: Any) -> None:
    code = "import sys; from envrax.libraries import without_sprites; without_sprites()"
    run_python(f"{code}; assert 'jaxtari' not in sys.modules")
