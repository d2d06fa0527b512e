# pyright: reportMissingImports=false
"""Models, data sets, seeds and spaces that go from real programs to envrax, and back."""

import tempfile
from collections import OrderedDict, UserDict, defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import chex
import gymnasium
import jax
import jax.numpy as jnp
import minari
import numpy as np
import pytest
from flax.core import FrozenDict
from gymnasium.utils.env_checker import check_env
from minari import DataCollector
from stable_baselines3 import PPO
from trainers.bridge_envs import ENVS, played

import envrax
from envrax import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple, VecEnv
from envrax.interop import (
    as_dicts,
    to_dm_env,
    to_gymnasium,
    to_gymnasium_vec,
    to_gymnax,
    to_minari,
    to_pettingzoo,
    to_pufferlib,
    to_rsl_rl,
    to_sb3,
)
from envrax.interop.gymnasium_registration import register
from envrax.testing import CountingEnv, ImageEnv, NimWorld
from envrax.testing.fakes import FakeConfig


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


@pytest.fixture
def clean_gymnasium() -> Iterator[None]:
    """Leave Gymnasium's registry as it was found."""
    before = dict(gymnasium.registry)
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


# Models -----------------------------------------------------------------------------------------


def test_models_of_sb3_go_both_ways(tmp_path: Path) -> None:
    """`Discrete(2, dtype=int32)` was "Action spaces do not match"."""
    theirs = gymnasium.make("CartPole-v1")
    cart_pole = envrax.make("classic/CartPole-v0", pre_warm=False)
    ours = [to_gymnasium(cart_pole), to_sb3(VecEnv(cart_pole, 2))]
    obs = theirs.observation_space.sample()
    for source, targets in ((theirs, ours), (ours[1], [theirs, ours[0]])):
        model = PPO("MlpPolicy", source, n_steps=8, batch_size=8, seed=0)
        model.save(tmp_path / "model")
        for target in targets:
            loaded = PPO.load(tmp_path / "model", env=target)
            assert loaded.predict(obs, deterministic=True) == model.predict(obs, deterministic=True)
            loaded.learn(16)


# Data sets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("data_format", ["hdf5", "arrow"])
@pytest.mark.filterwarnings("ignore:`|No reference", "ignore:Implicitly cleaning up")  # of Minari
def test_minari_s_collector_records_loads_and_recovers(data_format: str) -> None:
    """It draws seeds of 64 bits, which were refused, and warned of every int64 action."""
    register("classic")
    env = gymnasium.make("envrax/classic.CartPole-v0", max_steps=9)
    collector = DataCollector(env, data_format=data_format)
    collector.action_space.seed(0)
    collector.reset(options={"minari_autoseed": True})  # as its own option
    for _ in range(40):
        _, _, terminated, truncated, _ = collector.step(collector.action_space.sample())
        if terminated or truncated:
            collector.reset()
    collector.create_dataset("tests/collected-v0", algorithm_name="random", author="A")
    dataset = minari.load_dataset("tests/collected-v0")
    assert dataset.total_steps == 40
    again = dataset.recover_environment()
    assert again.spec == env.spec
    seeds = [x["seed"] for x in dataset.storage.get_episode_metadata(range(len(dataset)))]
    assert max(seeds) >= 2**32
    for episode, seed in zip(dataset.iterate_episodes(), seeds, strict=True):
        obs, _ = again.reset(seed=int(seed))
        rows = [obs, *(again.step(action)[0] for action in episode.actions)]
        np.testing.assert_array_equal(rows, episode.observations)
    collector.close()


SETS: dict[str, Any] = {
    "one step": CountingEnv(FakeConfig(max_steps=1)),
    "an image": envrax.ResizeObservation(ImageEnv(), h=36, w=40),
    "many dtypes": ENVS["many dtypes"],
    "choices": ENVS["rooms"],
}


def make_one(name: str) -> Any:
    """The entry point of an environment in Gymnasium."""
    return to_gymnasium(SETS[name])


@pytest.mark.parametrize("data_format", ["hdf5", "arrow", "parquet"])
@pytest.mark.parametrize("name", SETS)
@pytest.mark.usefixtures("clean_gymnasium")
@pytest.mark.filterwarnings("ignore")
def test_data_of_minari_s_collector_and_ours_are_one_set(
    name: str, data_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rewards were float32 here and are float64 there: Arrow read no set with both."""
    # Its own folders warn where it leaves them open.
    monkeypatch.setattr(
        tempfile, "TemporaryDirectory", lambda dir: SimpleNamespace(name=tempfile.mkdtemp(dir=dir))
    )
    env = SETS[name]
    gymnasium.register("Played-v0", f"{__name__}:make_one", kwargs={"name": name})
    steps = envrax.rollout(env, None, envrax.start(env, jax.random.key(0)), 9)[1]

    def collected() -> DataCollector:
        collector = DataCollector(
            gymnasium.make("Played-v0"), data_format=data_format, jpeg_encoding=False
        )
        collector.action_space.seed(0)
        for seed in range(3):
            collector.reset(seed=seed)
            while not any(collector.step(collector.action_space.sample())[2:4]):
                pass
        return collector

    with collected() as collector, collected() as more:
        spec = collector.env.spec
        ours = to_minari("tests/ours-v0", steps, env, env_spec=spec, data_format=data_format)
        theirs = collector.create_dataset("tests/theirs-v0")
        alone = list(ours), list(theirs)
        if not name.startswith("an image"):  # which Minari compresses as it combines
            combined = [
                (minari.combine_datasets([ours, theirs], "tests/a-v0"), [*alone[0], *alone[1]]),
                (minari.combine_datasets([theirs, ours], "tests/b-v0"), [*alone[1], *alone[0]]),
            ]
            for dataset, wanted in combined:
                alike(minari.load_dataset(dataset.spec.dataset_id), wanted)
        more.add_to_dataset(ours)
        continued = minari.load_dataset("tests/ours-v0")
        alike(continued, [*alone[0], *alone[1]])
        kept = continued.filter_episodes(lambda x: len(x) > 0)
        one, other = minari.split_dataset(kept, [2, 1], seed=0)
        assert len(one) == 2 and len(other) == 1 and kept.sample_episodes(2)
        assert continued.recover_environment().observation_space == ours.observation_space


def alike(found: Any, wanted: Any) -> None:
    """Episodes with the same bits and dtypes."""
    for one, other in zip(found, wanted, strict=True):
        fields = [vars(x) | {"id": 0, "infos": 0} for x in (one, other)]
        assert jax.tree.structure(fields[0]) == jax.tree.structure(fields[1])
        for a, b in zip(*map(jax.tree.leaves, fields), strict=True):
            assert np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_array_equal(a, b)


# Seeds ------------------------------------------------------------------------------------------

SINGLE: dict[str, Callable[[int], Any]] = {
    "gymnasium": lambda seed: to_gymnasium(CountingEnv()).reset(seed=seed)[0],
    "gymnasium_vec": lambda seed: to_gymnasium_vec(VecEnv(CountingEnv(), 2)).reset(seed=seed)[0],
    "pufferlib": lambda seed: to_pufferlib(VecEnv(CountingEnv(), 2)).reset(seed)[0],
    "dm_env": lambda seed: to_dm_env(CountingEnv(), seed=seed).reset().observation,
    "pettingzoo": lambda seed: to_pettingzoo(NimWorld()).reset(seed=seed)[0],
}


@pytest.mark.parametrize("bridge", ["gymnasium", "gymnasium_vec", "dm_env", "pufferlib"])
def test_seeds_of_any_width(bridge: str) -> None:
    begin = SINGLE[bridge]
    first = [str(begin(seed)) for seed in (5, 5 + 2**32, 5 + 2**33, 5 + 2**100)]
    assert len({*first}) == 4
    assert first == [str(begin(seed)) for seed in (np.int64(5), 5 + 2**32, 5 + 2**33, 5 + 2**100)]
    [by_hand] = played(CountingEnv(), [], 5)  # below 2**32 it is `jax.random.key(seed)`
    if bridge not in ("gymnasium_vec", "pufferlib"):
        np.testing.assert_array_equal(begin(5), by_hand.obs)
    with pytest.raises(ValueError, match="at least 0; got -1"):
        begin(-1)


def on_device(seed: Any) -> Any:
    env = to_gymnasium_vec(VecEnv(CountingEnv(), 2), autoreset_mode="Disabled", array="jax")
    env.reset()
    return env.reset(seed=seed, options={"reset_mask": np.array([True, False])})


SEEDED: dict[str, Callable[[Any], Any]] = {
    **SINGLE,
    "gymnasium_vec, some slots": on_device,
    "pufferlib, at first": lambda seed: to_pufferlib(VecEnv(CountingEnv(), 2), seed=seed),
    "dm_env, at first": lambda seed: to_dm_env(CountingEnv(), seed=seed),
    "rsl_rl": lambda seed: to_rsl_rl(VecEnv(Form(PLACE, lambda n, x: x, PLACE), 2), seed=seed),
    "sb3": lambda seed: to_sb3(VecEnv(CountingEnv(), 2)).seed(seed),
}


@pytest.mark.parametrize("bridge", SEEDED)
def test_what_is_no_seed_is_refused_in_one_sentence(bridge: str) -> None:
    """Text was added to 0 by `to_sb3.seed`, True was 1, and [7] an error about slots."""
    begin = SEEDED[bridge]
    who = "to_" + bridge.partition(",")[0]
    batched = who in ("to_gymnasium_vec", "to_pufferlib", "to_rsl_rl", "to_sb3")
    for seed in ("3", True, np.bool_(True), 3.0, jax.random.key(0), *[[7]] * (not batched)):
        with pytest.raises(TypeError) as error:
            begin(seed)
        told = f"expected seed to be an int; got {seed!r}. Pass an int from 0 on, or None for one"
        assert str(error.value).startswith(who) and told in str(error.value)
    with pytest.raises(ValueError, match=r"expected seed to be at least 0; got -1. Pass an int"):
        begin(np.int64(-1))
    for seed in (np.int64(3), jnp.int32(3), np.array(3), None):
        begin(seed)
    if batched:
        for seeds in ([3, None], (3, np.int64(4)), np.array([3, 4])):
            begin(seeds)
        with pytest.raises(TypeError, match=r"expected seed to be an int; got '4'\. Pass"):
            begin([3, "4"])
        with pytest.raises(ValueError, match="one for each of 2 slots; got 1"):
            begin([7])


def test_np_random_seed_is_a_seed() -> None:
    env = to_gymnasium(CountingEnv())
    assert env.np_random_seed > 2**64
    env.reset(seed=env.np_random_seed)


@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
@pytest.mark.parametrize("array", ["numpy", "jax"])
def test_a_list_of_seeds_begins_each_slot_as_one_environment(mode: str, array: str) -> None:
    single = to_gymnasium(CountingEnv())
    seeds = [7, 3, 2**40, 7]
    first = [single.reset(seed=seed)[0] for seed in seeds]
    env = to_gymnasium_vec(VecEnv(CountingEnv(), 4), autoreset_mode=mode, array=array)
    for given in (seeds, np.array(seeds)):
        obs, _ = env.reset(seed=given)
        np.testing.assert_array_equal(obs, first)
    after = np.asarray(env.reset()[0])
    env.reset(seed=seeds)
    np.testing.assert_array_equal(env.reset()[0], after)
    assert len({str(env.reset(seed=[1, 1, 1, None])[0]) for _ in range(4)}) > 1
    if mode == "Disabled":
        before = np.asarray(env.reset(seed=0)[0])
        where = np.array([True, False, True, False])
        obs, _ = env.reset(seed=seeds, options={"reset_mask": where})
        np.testing.assert_array_equal(obs, np.where(where[:, None], first, before))
    with pytest.raises(ValueError, match="one for each of 4 slots; got 2"):
        env.reset(seed=[1, 2])


def test_a_list_of_seeds_where_slots_are_no_copies_of_one_environment() -> None:
    batch = envrax.wrappers.vector.NormalizeObservation(VecEnv(CountingEnv(), 2))
    with pytest.raises(TypeError, match="expected one seed, since the slots of Normalize"):
        to_gymnasium_vec(batch).reset(seed=[1, 2])


def test_options_that_nobody_knows_are_ignored() -> None:
    options = {"low": -0.1, "minari_autoseed": False}
    for env in (to_gymnasium(CountingEnv()), to_gymnasium_vec(VecEnv(CountingEnv(), 2))):
        obs, _ = env.reset(seed=1, options=options)
        np.testing.assert_array_equal(obs, env.reset(seed=1)[0])
    sb3 = to_sb3(VecEnv(CountingEnv(), 2))
    sb3.set_options(options)
    sb3.reset()
    masked = to_gymnasium_vec(VecEnv(CountingEnv(), 2), autoreset_mode="Disabled")
    masked.reset()
    masked.reset(options={"reset_mask": np.array([True, False]), **options})
    with pytest.raises(ValueError, match="only if `autoreset_mode` is DISABLED"):
        to_gymnasium_vec(VecEnv(CountingEnv(), 2)).reset(options={"reset_mask": [True, True]})


# Containers and integers ------------------------------------------------------------------------


@chex.dataclass(frozen=True)
class Seen:
    """What an environment returns for a `Dict`."""

    count: Any
    place: Any


class Pair(NamedTuple):
    """What an environment returns for a `Tuple`, or has as an info."""

    first: Any
    second: Any


@jax.tree_util.register_pytree_node_class
class Own(UserDict[str, Any]):
    """A mapping of the user's that is no dict."""

    def tree_flatten(self) -> Any:
        return [*self.values()], [*self]

    @classmethod
    def tree_unflatten(cls, names: Any, values: Any) -> Any:
        return cls(zip(names, values, strict=True))


class Form(CountingEnv):
    """An environment that returns its observations, infos and masks in a form of its own."""

    def __init__(
        self, space: Any, form: Any, actions: Any = None, info: Any = None, mask: Any = None
    ) -> None:
        super().__init__()
        self.space, self.form, self.actions = space, form, actions or Discrete(3)
        self.more_info, self.mask = info, mask

    @property
    def observation_space(self) -> Any:
        return self.space

    @property
    def action_space(self) -> Any:
        return self.actions

    def observe(self, state: Any) -> Any:
        return self.form(state.number % 3, state.step.astype(jnp.float32)[None])

    def advance(self, state: Any, action: Any) -> Any:
        return state, sum(jnp.sum(x) for x in jax.tree.leaves(action)).astype(jnp.float32), False

    def info(self, state: Any) -> dict[str, Any]:
        return {"more": self.more_info(state.number)} if self.more_info else {}

    def action_mask(self, state: Any) -> Any:
        return self.mask(state.step > 0) if self.mask else None


PLACE = Box(0.0, 9.0, (1,))
SEEN = Dict(count=Discrete(3), place=PLACE)
FORMS = {
    # A mapping that is no `dict`, a container that is no `tuple`.
    "frozen chex.dataclass": Form(SEEN, lambda n, x: Seen(count=n, place=x)),
    "FrozenDict in a list": Form(
        Tuple([SEEN, PLACE]), lambda n, x: [FrozenDict(place=x, count=n), x]
    ),
    "a mapping of the user's, in itself": Form(
        Dict(a=SEEN), lambda n, x: Own(a=Own(place=x, count=n))
    ),
    "defaultdict": Form(SEEN, lambda n, x: defaultdict(None, {"place": x, "count": n})),
    "OrderedDict in a NamedTuple": Form(
        Tuple([SEEN, Discrete(3)]), lambda n, x: Pair(OrderedDict(place=x, count=n), n)
    ),
    "infos": Form(PLACE, lambda n, x: x, info=lambda n: FrozenDict(a=n, b=Seen(count=n, place=n))),
    "masks": Form(
        PLACE,
        lambda n, x: x,
        Dict(a=Discrete(2), b=Tuple([Discrete(2)])),
        mask=lambda late: FrozenDict(a=jnp.stack([~late, late]), b=[jnp.stack([late, ~late])]),
    ),
    # Integers.
    "uint8": Form(Discrete(3, np.uint8), lambda n, x: n.astype(jnp.uint8), Discrete(3, np.uint8)),
    "int64 is declared": Form(
        Discrete(3, np.int64), lambda n, x: n, MultiDiscrete((2, 3), np.int64)
    ),
    "int8 in a Dict": Form(
        Dict(a=MultiDiscrete((3, 3), np.int8), b=PLACE),
        lambda n, x: {"a": jnp.stack([n, n]).astype(jnp.int8), "b": x},
        Tuple([Discrete(3, np.int16), MultiDiscrete(((2, 3), (4, 5)), np.int8)]),
    ),
    "bits and bytes": Form(
        Tuple([MultiBinary(1, bool), Box(0, 255, (1,), np.uint8), Discrete(3)]),
        lambda n, x: (x[0:1] > 2, x.astype(jnp.uint8), n),
        Dict(a=MultiBinary(2), b=Box(-1, 1, (2,), np.int32), c=Discrete(4)),
    ),
}  # fmt: skip


def test_policies_see_the_entries_of_a_mapping() -> None:
    env = FORMS["frozen chex.dataclass"]
    PPO("MultiInputPolicy", to_sb3(VecEnv(env, 2)), n_steps=8, batch_size=8).learn(16)
    robot = Form(SEEN, env.form, Box(-1.0, 1.0, (1,)))
    assert {*to_rsl_rl(VecEnv(robot, 2)).get_observations().keys()} == {"count", "place"}


def test_as_dicts_takes_any_mapping() -> None:
    tree = FrozenDict(a=Own(b=Seen(count=1, place=Pair(first=2, second=[3]))))
    assert as_dicts(tree) == {"a": {"b": {"count": 1, "place": {"first": 2, "second": (3,)}}}}


def in_space(space: Any, x: Any, change: Callable[[Any, Any], Any]) -> Any:
    """The same in dicts and tuples, with `change(leaf of the space, array)`."""
    if isinstance(space, Dict):
        return {name: in_space(space[name], x[name], change) for name in space}
    if isinstance(space, Tuple):
        return tuple(in_space(*pair, change) for pair in zip(space.spaces, x, strict=True))
    return change(space, x)


def same(result: Any, space: Any, wanted: Any) -> None:
    """Plain containers, int64 for choices, the dtypes of the space, and the same values."""
    dtypes = in_space(
        space, wanted, lambda s, _: int if isinstance(s, Discrete | MultiDiscrete) else s.dtype
    )
    assert jax.tree.map(lambda x: np.asarray(x).dtype, result) == dtypes
    jax.tree.map(np.testing.assert_array_equal, result, in_space(space, wanted, lambda _, x: x))


def rows(space: Any, steps: list[Any]) -> Any:
    """The observations of steps, stacked in plain containers."""
    plain = [in_space(space, step.obs, lambda _, x: x) for step in steps]
    return jax.tree.map(lambda *x: np.stack(x), *plain)


def in_dicts(tree: Any) -> Any:
    """The same with dicts for mappings."""
    is_leaf = not isinstance(tree, Mapping)
    return tree if is_leaf else {k: in_dicts(x) for k, x in tree.items()}


@pytest.mark.parametrize("env", FORMS.values(), ids=FORMS)
class TestForms:
    def test_to_gymnasium(self, env: Any) -> None:
        out = to_gymnasium(env)
        check_env(out, skip_render_check=True)
        out.action_space.seed(0)
        actions = [out.action_space.sample() for _ in range(4)]
        results = [out.reset(seed=3), *(out.step(action) for action in actions)]
        for result, wanted in zip(results, played(env, actions, 3), strict=False):
            same(result[0], env.observation_space, wanted.obs)
        assert jax.tree.leaves(results[1][-1]) or env.more_info is None

    def test_to_gymnasium_vec(self, env: Any) -> None:
        out = to_gymnasium_vec(VecEnv(env, 2))
        out.action_space.seed(0)
        obs, infos = out.reset(seed=[3, 3])
        for wanted in played(env, [env.action_space.sample(jax.random.key(0))] * 4, 3):
            same(obs, out.batched_env.observation_space, rows(env.observation_space, [wanted] * 2))
            action = jax.tree.map(
                lambda x: np.stack([x, x]), env.action_space.sample(jax.random.key(0))
            )
            obs, _, _, _, infos = out.step(action)
            assert out.observation_space.contains(obs)
        if env.more_info:
            assert infos["final_info"]["more"]["b"]["count"].shape == (2,)
        if env.mask:
            assert infos["action_mask"]["a"].shape == (2, 2)

    def test_arrays_on_the_device(self, env: Any) -> None:
        out = to_gymnasium_vec(VecEnv(env, 2), array="jax")
        obs, infos = out.reset(seed=0)
        last = out.step(out.action_space.sample())
        for x in (obs, last[0], last[-1]["final_obs"]):
            assert jax.tree.structure(x) == jax.tree.structure(env.observation_space.dtype)

    def test_to_dm_env(self, env: Any) -> None:
        out = to_dm_env(env, seed=3)
        [first] = played(env, [], 3)
        obs = out.reset().observation
        same(obs, env.observation_space, first.obs)
        jax.tree.map(lambda spec, x: spec.validate(x), out.observation_spec(), obs)
        assert out.step(jax.tree.map(lambda x: x.generate_value(), out.action_spec())).mid()

    def test_to_gymnax(self, env: Any) -> None:
        out = to_gymnax(env)
        obs, state = out.reset(jax.random.key(0))
        last = out.step(jax.random.key(0), state, env.action_space.sample(jax.random.key(0)))
        for x in (obs, last[0], last[-1]["final_observation"]):
            assert jax.tree.structure(x) == jax.tree.structure(env.observation_space.dtype)

    @pytest.mark.parametrize("data_format", ["hdf5", "arrow"])
    def test_to_minari(self, env: Any, data_format: str) -> None:
        start = envrax.start(env, jax.random.key(0))
        _, steps = envrax.rollout(env, None, start, 9)
        to_minari("tests/form-v0", steps, env, data_format=data_format, record_infos=True)
        dataset = minari.load_dataset("tests/form-v0")
        for ours, theirs in zip(envrax.episodes(steps), dataset, strict=True):
            same(theirs.observations, env.observation_space, ours.obs)
            same(theirs.actions, env.action_space, ours.action)
            infos = jax.tree.leaves(theirs.infos)
            wanted = jax.tree.leaves(in_dicts(ours.info))
            assert len(infos) == len(wanted) >= 2 + 3 * bool(env.more_info)
            for x, y in zip(infos, wanted, strict=True):
                np.testing.assert_array_equal(x, [np.zeros_like(y[0]), *y])
