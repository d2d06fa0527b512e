# pyright: basic
"""What of a program follows from some of its inputs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from envrax.interop.protocol.known_part import Unknown, known_part

TABLE = jnp.arange(3.0)


def looped(x: Any, y: Any) -> Any:
    return jax.lax.fori_loop(0, 3, lambda i, z: z * 2 + i, x), jax.nn.relu(x) + y


FUNCTIONS: dict[str, Any] = {
    "a loop": looped,
    "a table": lambda x, y: (TABLE[jnp.int32(x)], TABLE.sum() * y),
    "a call": jax.jit(lambda x, y: (jnp.where(x > 1, x, -x), jax.lax.cond(y > 1, abs, abs, y))),
    "remat": lambda x, y: (jax.checkpoint(jnp.sin)(x), y),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_known_part_is_computed_and_the_rest_is_not(name: str) -> None:
    function = FUNCTIONS[name]
    program = jax.make_jaxpr(function)(2.0, 3.0)
    both = known_part(program, [2.0, 3.0])
    assert both.rest == [] and [*map(float, both.outputs)] == [*map(float, function(2.0, 3.0))]
    first = known_part(program, [2.0, None])
    assert float(first.outputs[0]) == float(both.outputs[0])
    assert isinstance(first.outputs[1], Unknown)
    assert known_part(program, [2.0, None], 1).rest == []


def test_the_rest_of_two_programs_is_compared() -> None:
    def part(limit: float, place: float, sign: Any = jnp.positive) -> Any:
        program = jax.make_jaxpr(lambda t, x: (t > limit) | (sign(x) > place))(2.0, 3.0)
        return known_part(program, [2.0, None])

    first, longer, further = part(3.0, 5.0), part(1.0, 5.0), part(3.0, 6.0)
    assert first.rest == longer.rest == further.rest != part(3.0, 5.0, jnp.negative).rest
    assert [*map(float, first.read)] == [5.0, 0.0]  # what is compared with the place; the flag
    assert [*map(float, longer.read)] == [5.0, 1.0]
    assert [*map(float, further.read)] == [6.0, 0.0]


def test_a_result_is_known_where_all_cases_are_equal() -> None:
    def chosen(x: Any, y: Any) -> Any:
        one, other = x > 1, x > 2
        by_branches = jax.lax.cond(y > 0, lambda: one, lambda: other)
        return jnp.where(y > 0, one, other), by_branches

    program = jax.make_jaxpr(chosen)(2.0, 3.0)
    for x, is_known in ((0.0, True), (1.5, False), (3.0, True)):
        for out in known_part(program, [x, None]).outputs:
            assert bool(out.is_known) == is_known
            assert bool(out.value) == (x > 1) or not is_known


def test_a_bool_that_is_left_open_is_assumed() -> None:
    """It is one that an operation reads which looks at both of its values."""

    def ends(late: Any, x: Any) -> Any:
        out = x > 3
        return out, late & ~out, (x < 0) | late

    program = jax.make_jaxpr(ends)(jnp.bool_(True), jnp.float32(3))
    open_bools = known_part(program, [True, None]).choices
    assert len(open_bools) == 1
    for out in (False, True):
        part = known_part(program, [True, None], assumed={open_bools[0]: out})
        assert [bool(x) for x in part.outputs[:2]] == [out, not out]
        assert bool(part.outputs[2].value) and part.choices == []
