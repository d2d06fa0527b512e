"""`donate=True`: the state is written over, and nothing else."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CounterEnv, NestedEnv, PixelEnv, VectorEnv
from helpers import assert_trees_equal, small_vec

from envrax import FrameStackObservation, JaxEnv, MultiVecEnv


def stacked() -> JaxEnv[Any, Any, Any, Any]:
    """Its observation is a part of its state."""

    class Gray(PixelEnv):
        shape = (6, 5)  # pyright: ignore[reportAssignmentType]

        def _image(self, pos: jax.Array) -> jax.Array:
            return jnp.full(self.shape, pos[0], jnp.uint8)

    return FrameStackObservation(Gray())


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (stacked, jax.random.key),
        pytest.param(NestedEnv, jax.random.key, marks=pytest.mark.slow),
        pytest.param(VectorEnv, jax.random.PRNGKey, marks=pytest.mark.slow),
    ],
)
def test_what_the_caller_holds_stays_readable(make: Any, key: Any) -> None:
    theirs = small_vec(make(), 4, final_obs=True)
    ours = small_vec(make(), 4, donate=True, final_obs=True)
    first, state = ours.reset(key(0))
    expected, other = theirs.reset(key(0))
    held, wanted = [first], [expected]
    for t in range(7):
        actions = theirs.action_space.sample(jax.random.key(t))
        obs, state, *rest = ours.step(state, actions)
        held += [obs, rest]
        obs, other, *rest = theirs.step(other, actions)
        wanted += [obs, rest]
    assert_trees_equal([*held, state], [*wanted, other])


def test_jax_refuses_an_old_state() -> None:
    vec_env = small_vec(CounterEnv(), 3, donate=True)
    _, state = vec_env.reset(jax.random.key(0))
    _, new, *_ = vec_env.step(state, [0, 1, 2])
    with pytest.raises((RuntimeError, ValueError), match="deleted"):
        vec_env.slot_state(state, 0)
    with pytest.raises((RuntimeError, ValueError), match="deleted"):
        vec_env.step(state, [0, 1, 2])
    vec_env.step(new, [0, 1, 2])


@pytest.mark.slow
def test_inside_other_programs_nothing_is_donated() -> None:
    vec_env = small_vec(CounterEnv(), 3, donate=True)
    _, state = vec_env.reset(jax.random.key(0))
    actions = np.asarray([0, 1, 2], np.int32)
    jax.jit(vec_env.step)(state, actions)
    jax.lax.scan(lambda s, _: (vec_env.step(s, actions)[1], None), state, length=2)
    jax.vmap(vec_env.step)(*jax.tree.map(lambda x: x[None], (state, actions)))
    jax.jit(MultiVecEnv([vec_env]).step)([state], [actions])
    assert int(state.step[0]) == 0


@pytest.mark.slow
def test_a_fleet_donates_what_its_members_would() -> None:
    """Also members that step as one batch, and one of them alone."""
    donating = [small_vec(CounterEnv(), 2, donate=True) for _ in range(2)]
    multi = MultiVecEnv([*donating, small_vec(CounterEnv(), 2)])
    _, old = multi.reset(jax.random.key(0))
    actions = [np.zeros(2, np.int32)] * 3
    _, new, *_ = multi.step(old, actions)
    assert [state.step.is_deleted() for state in old] == [True, True, False]
    multi.step_at(0, new[0], actions[0])
    with pytest.raises((RuntimeError, ValueError), match="deleted"):
        multi.step_at(0, new[0], actions[0])
