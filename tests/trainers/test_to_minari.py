# pyright: reportMissingImports=false
"""`to_minari`: what Minari's own loader reads back, and what is left after an error."""

import re
import weakref
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import minari
import numpy as np
import pytest
from fakes import CoinEnv
from trainers.bridge_envs import ENVS

import envrax
from envrax import MultiVecEnv, Transition, VecEnv, episodes
from envrax.interop import to_gymnasium, to_minari, to_space
from envrax.interop.gymnasium_registration import register
from envrax.testing import CountingEnv, ImageEnv, NimWorld

ID = "tests/data-v0"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


def pieces(env: Any, n_pieces: int = 3, n_steps: int = 9) -> Iterator[Transition]:
    at = envrax.start(env, jax.random.key(0))
    for _ in range(n_pieces):
        at, steps = envrax.rollout(env, None, at, n_steps)
        yield steps


def same(ours: Any, theirs: Any) -> None:
    """The same bits and dtypes, in containers of one kind; choices have 64 bits."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert a.dtype in (b.dtype, *[np.int64] * (b.dtype.kind in "iu"))
        np.testing.assert_array_equal(a, b)


formats = pytest.mark.parametrize("data_format", ["hdf5", "arrow", "parquet"])


@formats
@pytest.mark.parametrize("name", ["image", "many dtypes", "ends", "rooms"])
def test_the_loader_reads_what_was_played(name: str, data_format: str) -> None:
    env = VecEnv(ENVS[name], 2)
    to_minari(ID, pieces(env), env, data_format=data_format)
    found = minari.load_dataset(ID)
    assert found.observation_space == to_space(ENVS[name].observation_space)
    assert found.action_space == to_space(ENVS[name].action_space)
    wanted = list(episodes(pieces(env)))
    assert found.total_episodes == len(found) == len(wanted)
    assert found.total_steps == 2 * 27
    for one, other in zip(found, wanted, strict=True):
        same(one.observations, other.obs)
        same(one.actions, other.action)
        same((one.terminations, one.truncations), other[4:6])
        same(one.rewards, other.reward.astype(np.float64))
        assert not one.infos and "infos=dict" in repr(one)  # of None it was an error
        last = jax.tree.map(lambda x: np.asarray(x[-1]), one.observations)
        assert found.observation_space.contains(last)


class Told(CountingEnv):
    """An environment with another info, reward or name of its observation."""

    def __init__(self, info: Any = None, key: str = "", reward: Any = None) -> None:
        super().__init__()
        self.more_info, self.key, self.reward_type = info or {}, key, reward

    @property
    def observation_space(self) -> Any:
        return (
            envrax.Dict({self.key: super().observation_space})
            if self.key
            else super().observation_space
        )

    def observe(self, state: Any) -> Any:
        obs = super().observe(state)
        return {self.key: obs} if self.key else obs

    def step(self, state: Any, action: Any) -> tuple[Any, ...]:
        obs, state, reward, done, info = super().step(state, action)
        reward = reward if self.reward_type is None else reward.astype(self.reward_type)
        return obs, state, reward, done, {**info, **self.more_info}


@pytest.mark.parametrize(
    ("env", "name"),
    [
        (Told(key="pixels/view_0"), "'pixels/view_0' in `obs`"),
        (Told(key="."), "'.' in `obs`"),
        (Told(info={"a/b": jnp.float32(1)}), "'a/b' in `info`"),
        (Told(info={"a": ({"": jnp.float32(1)},)}), re.escape("'' in `info['a'][0]`")),
        (Told(info={"by_number": {0: jnp.float32(1)}}), re.escape("0 in `info['by_number']`")),
    ],
)
def test_a_key_that_is_no_name_in_a_file_is_refused(env: Any, name: str, folder: Path) -> None:
    """Minari wrote data sets that it could not read."""
    with pytest.raises(ValueError, match=f"to_minari: episode 0: expected keys .* got {name}"):
        to_minari(ID, pieces(env, 1), env, record_infos=True)
    assert not any(folder.rglob("*.hdf5"))


def test_keys_with_dots_and_spaces_are_read_back() -> None:
    env = Told(key="a.b c")
    to_minari(ID, pieces(env, 1), env)
    assert minari.load_dataset(ID)[0].observations["a.b c"].shape == (6, 2)


@formats
def test_nested_infos_and_small_floats(data_format: str) -> None:
    """A list was stacked along a new axis, bfloat16 became bytes, and Arrow lost what is nested."""
    info = {"list": [jnp.bfloat16(1.5), jnp.zeros(3)], "half": jnp.float16(0.5)}
    env = Told(info=info, reward=jnp.bfloat16)
    to_minari(ID, pieces(env, 1), env, record_infos=True, data_format=data_format)
    found = minari.load_dataset(ID)[0]
    wanted = next(episodes(pieces(env, 1)))
    same(found.rewards, wanted.reward.astype(np.float64))
    parts = found.infos["list"] if data_format == "hdf5" else found.infos
    first, second = (parts[x] for x in ("01" if data_format == "hdf5" else ("list/0", "list/1")))
    np.testing.assert_array_equal(first, np.array([0, *[1.5] * 5], np.float32))
    assert first.dtype == np.float32 and second.shape == (6, 3)
    assert found.infos["half"].dtype == np.float16


@formats
def test_images_lose_nothing_unless_they_are_asked_to(data_format: str) -> None:
    env = VecEnv(envrax.ResizeObservation(ImageEnv(), h=36, w=40), 1)
    steps = next(pieces(env, 1, 5))
    [exact] = to_minari(ID, steps, env, data_format=data_format)
    same(exact.observations, next(episodes(steps)).obs)
    small = to_minari("tests/small-v0", steps, env, jpeg_encoding=True, data_format=data_format)
    assert small.storage.jpeg_encoding
    assert small[0].observations.shape == exact.observations.shape


@formats
def test_infos_begin_with_an_entry_for_the_reset(data_format: str) -> None:
    env = VecEnv(envrax.RecordEpisodeStatistics(CoinEnv()), 2)
    steps = next(pieces(env, 1, 20))
    with_extras = steps._replace(info={**steps.info, "doubled": steps.reward * 2})
    dataset = to_minari(ID, with_extras, env, record_infos=True, data_format=data_format)
    for one, other in zip(dataset, episodes(with_extras), strict=True):
        assert one.infos["doubled"][0] == 0
        same(one.infos["doubled"][1:], other.reward * 2)
        rows = jax.tree.map(lambda x: x[1:], one.infos)
        if data_format != "hdf5":
            rows["episode"] = {x: rows.pop(f"episode/{x}") for x in "lr"}
        same(rows, other.info)


def test_an_episode_that_arrow_would_read_in_parts(folder: Path) -> None:
    """Minari gave the second half of it in place of the next episode."""
    env = CountingEnv()
    whole = next(episodes(next(pieces(env, 1))))
    n = 2**15
    long = jax.tree.map(lambda x: np.resize(x, (n + (len(x) == 6), *x.shape[1:])), whole)
    for data_format in ("arrow", "parquet"):
        with pytest.raises(ValueError, match=r"episode 1: .*at most 32767 steps.*got 32768"):
            to_minari(ID, [whole, long], env, data_format=data_format)
        assert not (folder / ID).exists()
        two = [jax.tree.map(lambda x: x[1:], long), whole]
        [one, other] = to_minari(f"tests/{data_format}-v0", two, env, data_format=data_format)
        assert (len(one.rewards), len(other.rewards)) == (n - 1, 5)


@pytest.mark.parametrize(
    "info", [{"a": {}}, {"a": ({}, 1)}, {"a": {"b": jnp.zeros((0, 2))}}], ids=str
)
def test_what_has_no_elements_is_refused_by_name(info: Any, folder: Path) -> None:
    env = Told(info={"fine": jnp.float32(1), **info})
    with pytest.raises(ValueError, match=r"arrays with elements; got none in `info\['a'\]"):
        to_minari(ID, pieces(env, 1), env, record_infos=True)
    assert not [*folder.iterdir()]


def test_what_is_none_in_an_info_is_left_out() -> None:
    """A mask is None for a part of the actions that has none."""
    env = Told(info={"mask": {"part": jnp.ones(3), "free": None}})
    found = to_minari(ID, pieces(env, 1), env, record_infos=True)
    assert found[0].infos["mask"].keys() == {"part"}


def test_minari_s_metadata_and_the_environment_again() -> None:
    register("classic")
    env = envrax.make_vec("classic/CartPole-v0", 2, max_steps=7)
    spec = gymnasium.make("envrax/classic.CartPole-v0", max_steps=7).spec
    emails = ["a@b.c", "d@e.f"]  # a list was an AssertionError of Minari
    told = dict(algorithm_name="random", author="A", author_email=emails, description="Played.")
    to_minari(ID, pieces(env), env, env_spec=spec, code_permalink="https://x.y", **told)
    dataset = minari.load_dataset(ID)
    metadata = dataset.storage.metadata
    assert metadata["algorithm_name"] == "random" and metadata["description"] == "Played."
    assert metadata["author"] == {"A"} and metadata["author_email"] == {*emails}
    assert metadata["code_permalink"] == "https://x.y"
    assert "CartPole" in metadata["envrax_env"] and "max_steps=7" in metadata["envrax_env"]
    again = dataset.recover_environment()
    assert again.unwrapped.jax_env.config == env.config
    assert again.observation_space == dataset.observation_space


@formats
def test_episodes_may_be_chosen_and_added(data_format: str) -> None:
    env = CoinEnv()
    steps = next(pieces(env, 1, 40))
    whole = [x for x in episodes(steps) if x.done[-1]]
    dataset = to_minari(ID, chain(whole, whole[:2]), env, data_format=data_format)
    assert len(dataset) == len(whole) + 2 > 3
    same(dataset[-1].observations, whole[1].obs)
    one = to_minari("demo/one-v0", whole[0], env, data_format=data_format)
    same([x.observations for x in one], [whole[0].obs])
    assert not any(x.truncations.any() for x in dataset)


def test_pieces_are_not_kept() -> None:
    env = CountingEnv()
    alive: list[weakref.ref[Any]] = []
    counts: list[int] = []

    def watched() -> Iterator[Transition]:
        for steps in pieces(env, 6, 10):
            alive.append(weakref.ref(steps.obs))
            counts.append(sum(x() is not None for x in alive))
            yield steps
            del steps

    assert to_minari(ID, watched(), env).total_steps == 60
    assert len(counts) == 6 and max(counts) <= 3  # of them one that `pieces` holds


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_leaves_nothing(error: type[BaseException], folder: Path) -> None:
    env = CountingEnv()

    def broken() -> Iterator[Transition]:
        yield from pieces(env, 2)
        raise error("stopped")

    with pytest.raises(error, match="stopped"):
        to_minari(ID, broken(), env)
    assert not [path for path in folder.rglob("*") if path.name.startswith("data")]
    with pytest.raises(gymnasium.error.Error):
        to_minari(ID, pieces(env), env, env_spec="envrax/Nothing-v0")
    with pytest.raises(ValueError, match="expected `env_spec` of an environment with observation"):
        to_minari(ID, pieces(env), env, env_spec="Pendulum-v1")
    with pytest.raises(ValueError, match="of an id in Gymnasium's registry; got that of an object"):
        to_minari(ID, pieces(env), env, env_spec=to_gymnasium(env))
    register("classic")
    config = envrax.make("classic/CartPole-v0").config
    own = gymnasium.make("envrax/classic.CartPole-v0", config=config)
    with pytest.raises(TypeError, match="that JSON holds; got config="):
        to_minari(ID, pieces(env), env, env_spec=own.spec)
    assert to_minari(ID, pieces(env), env).total_steps == 27


def test_every_episode_is_checked_and_named(folder: Path) -> None:
    """Only the first was: others of another shape, or without their last observation, were lost."""
    env = CountingEnv()
    right = next(episodes(next(pieces(env, 1))))
    other = next(episodes(next(pieces(envrax.FrameStackObservation(env, n_stack=2), 1))))
    cases: list[tuple[Any, str]] = [
        (other, r"expected obs of shape \(6, 2\), int32; got \(6, 2, 2\) int32"),
        (right._replace(obs=right.obs[:-1]), r"obs of shape \(6, 2\), int32; got \(5, 2\) int32"),
        (right._replace(action=right.action[1:]), r"action of shape \(5,\), int32; got \(4,\)"),
        (right._replace(action=right.action + 0.5), "action of shape .* got .* float64"),
        (right._replace(reward=right.reward[:, None]), r"rewards of shape \(5,\); got \(5, 1\)"),
        (right._replace(info={}), "infos with the names, shapes and dtypes of those before"),
        (right._replace(info={**right.info, "": right.reward}), "keys that are names"),
    ]
    for episode, message in cases:
        for data_format in ("hdf5", "arrow"):
            given = [right, right, episode]
            with pytest.raises((ValueError, TypeError), match=f"to_minari: episode 2: .*{message}"):
                to_minari(ID, given, env, record_infos=True, data_format=data_format)
            assert not (folder / ID).exists()


@formats
def test_the_beginning_of_an_episode_is_truncated(data_format: str) -> None:
    """It had no end in the data, where Minari's collector writes one."""
    env = CountingEnv()
    whole = next(episodes(next(pieces(env, 1))))
    cut = jax.tree.map(lambda x: x[:3], whole._replace(obs=None))._replace(obs=whole.obs[:4])
    [one, other] = to_minari(ID, [cut, whole], env, data_format=data_format)
    assert one.truncations.tolist() == [False, False, True] and not one.terminations.any()
    np.testing.assert_array_equal(other.truncations, whole.truncated)
    assert not cut.truncated.any()


def test_what_is_no_data_is_refused_in_a_sentence(folder: Path) -> None:
    env = CountingEnv()
    steps = next(pieces(env, 1))
    stacked: Any = envrax.FrameStackObservation(env, n_stack=2)
    cases: list[tuple[tuple[Any, ...], type[Exception], str]] = [
        (
            (ID, steps, "classic/CartPole-v0"),
            TypeError,
            "JaxEnv or a BatchedEnv after .* got 'classic",
        ),
        ((ID, steps, MultiVecEnv([VecEnv(env, 2)])), TypeError, "JaxEnv or a BatchedEnv"),
        ((ID, steps, NimWorld()), TypeError, "environment of one agent"),
        ((ID, steps, stacked), ValueError, "obs .*shape"),
        ((ID, [], env), ValueError, "at least one step"),
        ((ID, [None], env), TypeError, "Transition"),
        ((ID, None, env), TypeError, "Transition"),
        (("data", steps, env), ValueError, "with a version"),
        (("a/data-v0", steps, env), ValueError, "with a version"),
        ((ID, "steps", env), TypeError, "Transition or an iterable of them; got str"),
        ((steps, ID, env), ValueError, "an id of letters.*; got Transition. "),
        ((ID, env, steps), TypeError, "BatchedEnv after the steps; got Transition. "),
    ]
    for arguments, error, message in cases:
        with pytest.raises(error, match=message):
            to_minari(*arguments)
    with pytest.raises(TypeError, match=r"env_spec to be an id of.*; got SyncVectorEnv"):
        batch = gymnasium.make_vec("CartPole-v1", 1, vectorization_mode="sync")
        to_minari(ID, steps, env, env_spec=batch)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"autor": "A"}, r"autor. Did you mean author\?"),
        ({"buffer": []}, "buffer. Leave it out."),
    ]
    for keywords, message in wrong:
        with pytest.raises(TypeError, match=f"expected the keywords .* got {message}"):
            to_minari(ID, steps, env, **keywords)
    assert not [*folder.iterdir()]
    to_minari(ID, steps, env)
    with pytest.raises(ValueError, match="an id without a data set"):
        to_minari(ID, steps, env)
    assert minari.load_dataset(ID).total_steps == 9
