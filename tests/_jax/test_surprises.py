"""What JAX does against what one expects, on which `envrax/libraries/surprises.toml` relies."""

import gc
import weakref
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import VectorEnv

import envrax
from envrax import EnvState, VecEnv
from envrax._jax.returned import require_tuple

KEY = jax.random.key(0)


def bits(keys: Any) -> list[int]:
    return np.asarray(jax.random.key_data(keys)).ravel().tolist()


def test_fold_in_equals_split() -> None:
    assert bits(jax.random.fold_in(KEY, 3)) == bits(jax.random.split(KEY, 8)[3])


class ShowsItsKey(VectorEnv):
    def step(self, state: Any, action: Any) -> Any:
        rng, key = jax.random.split(state.rng)
        obs, state, reward, done, _ = super().step(state.replace(rng=rng), action)
        return obs, state, reward, done, {"key": jax.random.key_data(key)}


def test_no_key_of_a_rollout_is_used_twice() -> None:
    """Neither by two slots or steps nor by a slot and the policy."""
    batch = VecEnv(ShowsItsKey(), 8)

    def policy(memory: Any, obs: Any, rng: Any) -> Any:
        return jnp.zeros(8, jnp.int32), memory, jax.random.key_data(rng)

    steps = envrax.rollout(batch, policy, envrax.start(batch, KEY), 20)[1]
    keys = np.concatenate([np.reshape(x, (-1, 2)) for x in (steps.info["key"], steps.extras)])
    assert len(np.unique(keys, axis=0)) == len(keys) == 20 * 9


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_fold_in_of_unsafe_rbg_is_xor(impl: str) -> None:
    key, fold = jax.random.key(0, impl=impl), jax.random.fold_in
    same = bits(fold(fold(key, 3), 7)) == bits(fold(fold(key, 7), 3))
    assert same == (bits(fold(fold(key, 5), 5)) == bits(key)) == (impl == "unsafe_rbg")


def test_keys_out_of_range_are_valid() -> None:
    keys = jax.random.split(KEY, 4)
    assert set(bits(jnp.take(keys, 10))) == {2**32 - 1}
    assert bits(jax.jit(lambda i: keys[i])(10)) == bits(keys[3])


class Held:
    def add(self, x: Any) -> Any:
        return x + 1


def test_what_a_static_argument_holds_is_never_freed() -> None:
    def kept(static: bool) -> bool:
        held = Held()
        jitted = jax.jit(Held.add, static_argnums=0) if static else jax.jit(held.add)
        jitted(*[held] * static, jnp.float32(0))
        alive = weakref.ref(held)
        del held, jitted
        gc.collect()
        return alive() is not None

    assert kept(static=True) and not kept(static=False)


def test_an_environment_is_freed() -> None:
    batch = VecEnv(VectorEnv(), 2)
    batch.step(batch.reset(KEY)[1], batch.action_space.sample(KEY))
    envrax.rollout(batch, None, envrax.start(batch, KEY), 2)
    alive = weakref.ref(batch.env)
    del batch
    gc.collect()
    assert alive() is None


def test_static_values_that_are_equal_share_a_program() -> None:
    scaled: Any = jax.jit(lambda x, scale: x * scale[0], static_argnums=1)
    assert [scaled(jnp.int32(3), (scale,)).dtype for scale in (1, 1.0)] == [jnp.int32] * 2


def test_an_attribute_of_a_chex_dataclass_becomes_a_leaf() -> None:
    """A state with one that its class does not declare is refused where a step returns it."""
    obs, state = VectorEnv().reset(KEY)
    n_leaves = len(jax.tree.leaves(state))
    require_tuple("VectorEnv", "reset", (obs, state), EnvState)
    vars(state)["a_note"] = np.zeros(3)
    assert len(jax.tree.leaves(state)) == n_leaves + 1
    with pytest.raises(TypeError, match="`a_note` too"):
        require_tuple("VectorEnv", "reset", (obs, state), EnvState)


def test_x64_changes_some_draws() -> None:
    def drawn() -> list[Any]:
        draws = jax.random.randint(KEY, (8,), 0, 1000), jax.random.permutation(KEY, 8)
        return [np.asarray(x).tolist() for x in draws]

    wide, narrow = [], drawn()
    with jax.enable_x64(True):
        wide = drawn()
    assert [a == b for a, b in zip(narrow, wide, strict=True)] == [False, True]


@chex.dataclass
class Checked:
    x: Any

    def __post_init__(self) -> None:
        self.x.astype(jnp.int32)


def test_post_init_runs_on_placeholders() -> None:
    given = Checked(x=jnp.ones(3))
    assert jax.jit(lambda x: x)(given) is not None
    with pytest.raises(AttributeError, match="astype"):
        jax.eval_shape(lambda x: x, given)


def test_infinities_are_not_found_with_donation() -> None:
    with jax.debug_infs(True), pytest.raises(RuntimeError, match="deleted"):
        jax.jit(lambda x: 1 / x, donate_argnums=0)(jnp.zeros(4))
