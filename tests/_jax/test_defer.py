"""The first result of a function, computed later: equal to the function, and drawn only then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_trees_equal

from envrax._jax.defer import defer_first
from envrax._jax.jaxprs import equations

WIDE = jnp.zeros((40, 30), jnp.float32)


def draw(x: jax.Array) -> jax.Array:
    """An image, much larger than what it shows; `cosh` marks it."""
    return WIDE + jnp.cosh(x)


def plain(state: Any, action: jax.Array) -> Any:
    x = state["x"] * 2 + action
    return draw(x), {"x": x}, jnp.sin(x)


def in_jit(state: Any, action: jax.Array) -> Any:
    """Calls of `jit` in calls of `jit` that give the image and what else there is."""
    inner = jax.jit(lambda x: (jax.jit(draw)(x), jnp.sin(x)))

    @jax.jit
    def step(state: Any, action: jax.Array) -> Any:
        x = state["x"] * 2 + action
        image, reward = inner(x)
        return {"image": image, "twice": image * 2}, {"x": x}, reward

    return step(state, action)


def with_key(state: Any, action: jax.Array) -> Any:
    """The image has noise of a key that nothing else uses."""
    rng, key = jax.random.split(jax.random.key(jnp.int32(state["x"])))
    noise = jax.random.uniform(key, WIDE.shape, jnp.float32)
    return draw(action) + noise, {"x": jax.random.uniform(rng, (), jnp.float32)}, action


def in_branches(state: Any, action: jax.Array) -> Any:
    """A `cond` that gives both is not split."""
    both = jax.lax.cond(action > 0, lambda x: (draw(x), x), lambda x: (WIDE, -x), state["x"])
    return both[0], {"x": both[1]}, action


def of_constants(state: Any, action: jax.Array) -> Any:
    return (WIDE, jnp.float32(3), state["x"]), {"x": action}, action


FUNCTIONS: list[Callable[..., Any]] = [plain, in_jit, with_key, in_branches, of_constants]
ARGS = {"x": jnp.float32(0.7)}, jnp.float32(0.3)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda x: x.__name__)
def test_both_parts_give_what_the_function_gives(function: Any) -> None:
    def in_parts(state: Any, action: jax.Array) -> Any:
        split = defer_first(function, state, action)
        others, between = split.others(state, action)
        return split.first(between), *others

    assert_trees_equal(jax.jit(in_parts)(*ARGS), jax.jit(function)(*ARGS))
    batch = jax.tree.map(lambda x: x + jnp.arange(3, dtype=jnp.float32), ARGS)
    assert_trees_equal(jax.jit(jax.vmap(in_parts))(*batch), jax.jit(jax.vmap(function))(*batch))


@pytest.mark.parametrize("function", [plain, in_jit], ids=lambda x: x.__name__)
def test_only_the_second_part_draws(function: Any) -> None:
    split = defer_first(function, *ARGS)
    _, between = split.others(*ARGS)
    drawn = [
        [eqn.primitive.name for eqn in equations(jax.make_jaxpr(part)(*args))].count("cosh")
        for part, args in ((split.others, ARGS), (split.first, (between,)))
    ]
    assert drawn == [0, 1]
    assert sum(x.size for x in jax.tree.leaves(between)) == 1


def test_what_is_not_larger_than_what_it_is_made_of_is_kept() -> None:
    def step(state: jax.Array) -> Any:
        state = state + 1
        return jnp.sum(state), state

    split = defer_first(step, WIDE)
    assert jax.tree.leaves(split.others(WIDE)[1])[0].shape == ()


def test_a_state_that_changes_its_type_is_stepped_by_the_function_itself() -> None:
    """An int8 that becomes an int32 would overflow in the program of the first step."""

    def step(x: jax.Array) -> Any:
        x = (x + jnp.asarray(100, x.dtype)).astype(jnp.int32)
        return jnp.broadcast_to(x, (100,)), x

    split = defer_first(step, jnp.int8(0))
    (x,), _ = split.others(jnp.int8(0))
    assert int(split.others(x)[0][0]) == 200  # in int8, -56


def test_a_step_is_run_by_python_where_jit_is_disabled() -> None:
    def step(x: jax.Array) -> Any:
        y = x + 1 if bool(x < 3) else x
        return jnp.broadcast_to(y, (100,)), y

    with jax.disable_jit():
        split = defer_first(step, jnp.int32(1))
        assert int(split.others(jnp.int32(1))[0][0]) == 2


def test_an_effect_comes_once_and_in_the_first_part() -> None:
    seen: list[float] = []

    def step(x: jax.Array) -> Any:
        jax.debug.callback(lambda x: seen.append(float(x)), x)
        return draw(x), x + 1

    split = defer_first(step, jnp.float32(2))
    _, between = split.others(jnp.float32(5))
    jax.effects_barrier()
    assert seen == [5.0]
    split.first(between)
    jax.effects_barrier()
    assert seen == [5.0]


def test_derivatives_go_through_both_parts() -> None:
    def in_parts(x: jax.Array, y: jax.Array) -> jax.Array:
        split = defer_first(lambda x: (draw(x * y), x), x)
        return jnp.sum(split.first(split.others(x)[1]))

    ours = jax.grad(in_parts, (0, 1))(jnp.float32(0.4), jnp.float32(0.6))
    theirs = jax.grad(lambda x, y: jnp.sum(draw(x * y)), (0, 1))(jnp.float32(0.4), jnp.float32(0.6))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
