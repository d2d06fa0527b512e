# pyright: reportMissingImports=false
"""`HostLoop`: types, ends, packing, and changes of JAX's settings."""

import pickle
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from batched_fakes import OnTheHost
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from trainers.bridge_envs import EndsEnv, same

from envrax import VecEnv
from envrax.interop import to_gymnasium, to_gymnasium_vec
from envrax.interop.out.host_loop import HostLoop
from envrax.interop.out.packing import keys_as_bits, pack, unpack, unpack_on_device
from envrax.testing import CountingEnv, RingWorld
from envrax.wrappers import EpisodeDiscount, ExpandDims


class Changed(CountingEnv):
    """An environment whose steps return `change(obs, state, reward, done, info)`."""

    def __init__(self, change: Callable[..., Any]) -> None:
        super().__init__()
        self.change = change

    def step(self, state: Any, action: Any) -> Any:
        return self.change(*super().step(state, action))


def telling(info_of: Callable[[Any], Any]) -> Any:
    """An environment with another info, of its `done`."""
    return Changed(lambda obs, state, reward, done, _: (obs, state, reward, done, info_of(done)))


def ends(env: Any, n_steps: int) -> list[tuple[bool, bool]]:
    env.reset(seed=0)
    return [env.step(0)[2:4] for _ in range(n_steps)]


ENDED, TERMINATED, TRUNCATED = (False, False), (True, False), (False, True)
INFOS: dict[str, tuple[Callable[[Any], Any], tuple[bool, bool]]] = {
    "nothing": (lambda done: {}, TRUNCATED),  # at `max_steps`
    "only terminated": (lambda done: {"terminated": done}, TERMINATED),
    "only truncated": (lambda done: {"truncated": done}, TRUNCATED),
    "not terminated": (lambda done: {"terminated": done & False}, TRUNCATED),
    "not truncated": (lambda done: {"truncated": done & False}, TERMINATED),
    "neither": (lambda done: {"terminated": done & False, "truncated": done & False}, TRUNCATED),
    "both": (lambda done: {"terminated": done, "truncated": done}, (True, True)),
    "always": (lambda done: {"terminated": done | True, "truncated": done}, (True, True)),
}


@pytest.mark.parametrize("said", INFOS)
def test_an_episode_ends_where_auto_reset_ends_it(said: str) -> None:
    """Whatever the info says, no slot is reset behind the trainer's back, or ended by an info."""
    info_of, last = INFOS[said]
    env = telling(info_of)
    assert ends(to_gymnasium(env), 5) == [ENDED] * 4 + [last]
    batch = to_gymnasium_vec(VecEnv(env, 2))
    batch.reset(seed=0)
    for step in range(1, 11):
        obs, _, terminated, truncated, _ = batch.step([0, 0])
        over = bool(terminated[0] | truncated[0])
        assert over == (obs[0, 1] == 0) == (step % 5 == 0)
        assert not over or (terminated[0], truncated[0]) == last


def test_a_state_that_ends_is_an_end() -> None:
    env = Changed(
        lambda obs, state, *rest: (obs, state.replace(done=state.step >= 2), *rest[:2], {})
    )
    assert ends(to_gymnasium(env), 2) == [ENDED, TERMINATED]


def test_weak_types_compile_once_and_give_the_same(compile_counter: Callable[..., Any]) -> None:
    class Weak(CountingEnv):
        def reset(self, rng: Any) -> Any:
            obs, state = super().reset(rng)
            return obs, state.replace(step=0, done=False)

    to_gymnasium(CountingEnv()).reset(seed=0)
    env, plain = to_gymnasium(Weak()), to_gymnasium(CountingEnv())
    same(env.reset(seed=0)[0], plain.reset(seed=0)[0])
    plain.step(1)
    with compile_counter() as compiled:
        for _ in range(3):
            env.step(1)
        env.reset(seed=0)
        env.step(1)
    assert compiled.count == 1


REFUSED: dict[str, Callable[..., Any]] = {
    "number": lambda obs, state, *rest: (obs, state.replace(number=state.number[None]), *rest),
    "obs": lambda obs, *rest: (obs.astype(jnp.float32), *rest),
    "terminated": lambda *rest: (*rest[:4], {"terminated": rest[2]}),
}


@pytest.mark.parametrize("leaf", REFUSED)
def test_a_step_of_another_type_is_an_error(leaf: str) -> None:
    out = to_gymnasium(Changed(REFUSED[leaf]))
    out.reset(seed=0)
    with pytest.raises(TypeError, match=leaf):
        out.step(0)


def test_the_state_is_that_of_the_environment_and_is_not_consumed() -> None:
    for batch in (VecEnv(CountingEnv(), 3, donate=True), RingWorld()):
        driver = HostLoop(batch if isinstance(batch, VecEnv) else known(RingWorld)(), "who")
        driver.reset(1)
        before = driver.state
        driver.step(np.zeros(batch.n_slots, np.int32))
        jax.block_until_ready(before)
        assert np.asarray(jax.random.key_data(before.rng)).size


def known(batch: Any) -> Any:
    """A class of batches that tell the last observation."""

    class Known(batch):
        def step(self, state: Any, actions: Any) -> Any:
            obs, state, rewards, dones, infos = super().step(state, actions)
            return obs, state, rewards, dones, {**infos, "final_obs": obs}

    return Known


def test_batches_other_than_a_vec_env() -> None:
    with pytest.raises(TypeError, match="final_obs"):
        env = to_gymnasium_vec(RingWorld())
        env.reset(seed=0)
        env.step(np.zeros(6, np.int32))
    host = known(OnTheHost)(3)
    for batch in (known(RingWorld)(), host):
        env = to_gymnasium_vec(batch)
        env.reset(seed=0)
        env.action_space.seed(0)
        ends = 0
        for _ in range(100):
            obs, _, terminated, truncated, infos = env.step(env.action_space.sample())
            assert env.observation_space.contains(obs)
            assert ("final_obs" in infos) == (terminated | truncated).any()
            ends += (terminated | truncated).sum()
        assert ends > 3
        env.close()
    assert host.closed


@pytest.mark.parametrize("wrapper", [ExpandDims, EpisodeDiscount], ids=lambda w: w.__name__)
def test_a_batch_with_dones_of_another_kind_is_an_error(wrapper: Any) -> None:
    silent = telling(lambda done: {})
    for inner in (silent, EndsEnv()):  # with reasons too: an end may have no reason
        env = to_gymnasium_vec(VecEnv(wrapper(inner), 2))
        with pytest.raises((TypeError, ValueError), match="wrapper"):
            env.reset(seed=0)


def test_a_refused_action_leaves_the_episode_as_it_was() -> None:
    env, other = to_gymnasium(EndsEnv()), to_gymnasium(EndsEnv())
    env.reset(seed=0)
    other.reset(seed=0)
    with pytest.raises(ValueError, match="shape"):
        env.step([1, 2])
    same(env.step(0)[0], other.step(0)[0])


DTYPES = [np.bool_, np.int8, np.uint8, np.int32, np.uint32, np.float16, np.float32]
arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))
)
trees = st.recursive(
    arrays | st.none(),
    lambda inner: (
        st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=40)
@given(trees, st.sampled_from([0, 8, 10_000]))
def test_unpacking_gives_the_packed_tree_on_host_and_device(tree: Any, small: int) -> None:
    tree = {"tree": tree, "key": jax.random.split(jax.random.key(3), 2), "z": np.complex64([1j, 2])}
    packed = pickle.loads(pickle.dumps(pack(tree, small)))
    leaves = jax.tree.leaves(bits(tree))
    result = unpack(packed)
    assert all(x.flags.writeable for x in jax.tree.leaves(result))
    for x, wanted in zip(jax.tree.leaves(result), leaves, strict=True):
        assert (x.dtype, x.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(x, wanted)
    assert len(packed.flat) >= (2 if small < 10_000 else 1)
    found = unpack_on_device(packed)
    chex.assert_trees_all_equal_shapes_and_dtypes(found, jax.tree.map(jnp.asarray, tree))
    jax.tree.map(np.testing.assert_array_equal, *map(bits, (found, tree)))


def bits(tree: Any) -> Any:
    return jax.tree.map(keys_as_bits, tree)


def test_each_program_has_its_own_layout() -> None:
    packed = jax.jit(pack)
    first = packed({"a": np.float32(1), "b": np.int32(2)})
    second = packed({"b": np.zeros(3, np.float32)})
    again = packed({"a": np.float32(3), "b": np.int32(4)})
    assert unpack(first) == {"a": 1, "b": 2}
    assert unpack(second)["b"].shape == (3,)
    assert unpack(again) == {"a": 3, "b": 4}
