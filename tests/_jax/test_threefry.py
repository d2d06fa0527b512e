"""The hash written out: every draw of `jax.random` has the bits that JAX gives it."""

from collections.abc import Callable
from typing import Any, cast

import jax
import jax.extend.random as extended
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from envrax._jax.keys import is_key
from envrax._jax.threefry import written_out_on_cpu


def with_settings(key: jax.Array) -> Any:
    with jax.threefry_partitionable(False):
        old = random.uniform(key)
    with jax.threefry_partitionable(True):
        return old, random.uniform(key)


def in_a_loop(key: jax.Array) -> Any:
    def draw(key: jax.Array, _: None) -> Any:
        return random.split(key)[0], random.uniform(key)

    return cast(Any, jax.lax.scan(draw, key, None, 3))


def in_a_branch(key: jax.Array) -> Any:
    key, which = random.split(key)
    branches: Any = random.uniform, random.normal
    return cast(Any, jax.lax.cond(random.bernoulli(which), *branches, key))


def of_many_keys(key: jax.Array) -> Any:
    keys = random.split(key, (2, 3))
    return jax.vmap(jax.vmap(lambda key, i: random.uniform(random.fold_in(key, i), (2,))))(
        keys, jnp.arange(6).reshape(2, 3)
    )


def of_another_kind(key: jax.Array) -> Any:
    return random.uniform(random.key(3, impl="rbg"), (2,)) + random.uniform(key)


def hashed(key: jax.Array) -> Any:
    bits = random.bits(key, (), jnp.uint32)
    return cast(Any, extended).threefry_2x32((bits, bits), jnp.arange(7, dtype=jnp.uint32))


P = np.array([0.1, 0.2, 0.7], np.float32)
DRAWS: dict[str, Callable[[jax.Array], Any]] = {
    "uniform": lambda key: random.uniform(key, (3, 5), jnp.float32),
    "half": lambda key: random.uniform(key, (7,), jnp.bfloat16),
    "empty": lambda key: random.uniform(key, (0, 3)),
    "normal": lambda key: jax.nn.relu(random.normal(key, (3,))),  # has a rule for its derivative
    "truncated_normal": lambda key: random.truncated_normal(key, -1.0, 1.0, (4,)),
    "randint": lambda key: random.randint(key, (5,), 0, 7, jnp.int8),
    "bernoulli": lambda key: random.bernoulli(key, 0.3, (9,)),
    "categorical": lambda key: random.categorical(key, jnp.log(P), shape=(4,)),
    "permutation": lambda key: random.permutation(key, 11),
    "choice": lambda key: random.choice(key, 3, (4,), p=jnp.asarray(P)),
    # Its loop is left to JAX 0.12, which rounds it differently in another program.
    "gamma": lambda key: jnp.round(random.gamma(key, jnp.asarray(P)), 3),
    "poisson": lambda key: random.poisson(key, 3.0, (4,)),
    "split": lambda key: random.split(key, (2, 3)),
    "split_none": lambda key: random.split(key, 0),
    "fold_in": lambda key: random.fold_in(key, 7),
    "fold_in_many": lambda key: jax.vmap(lambda i: random.fold_in(key, i))(jnp.arange(3)),
    "checkpoint": lambda key: jax.checkpoint(lambda key: jnp.sin(random.normal(key, (3,))))(key),
    **{f.__name__: f for f in (with_settings, in_a_loop, in_a_branch, of_many_keys)},
    **{f.__name__: f for f in (of_another_kind, hashed)},
}


def bits_of(width: int, shape: tuple[int, ...]) -> Callable[[jax.Array], Any]:
    return lambda key: random.bits(key, shape, f"uint{width}")


def leaves(tree: Any) -> list[Any]:
    def bits(x: Any) -> Any:
        return np.asarray(random.key_data(x) if is_key(x) else x)

    return [(jax.typeof(x), bits(x).tobytes()) for x in jax.tree.leaves(tree)]


@pytest.mark.parametrize(
    ("make", "partitionable"), [(random.key, True), (random.PRNGKey, False)], ids=["new", "old"]
)
def test_every_draw(make: Callable[[int], jax.Array], partitionable: bool) -> None:
    with jax.threefry_partitionable(partitionable), jax.enable_x64(partitionable):
        widths = (8, 16, 32, 64) if partitionable else (8, 16, 32)
        shapes = (), (3,), (5, 7)
        of_bits = {f"{n} {shape}": bits_of(n, shape) for n in widths for shape in shapes}
        one = make(5)

        def run(change: Callable[..., Any]) -> Any:
            def all_draws(one: jax.Array, many: jax.Array) -> Any:
                draws = {**DRAWS, **of_bits}.items()
                return {k: (change(f)(one), change(jax.vmap(f))(many)) for k, f in draws}

            program: Any = jax.jit(all_draws)
            return program(one, random.split(one, 3))

        expected = run(lambda f: f)
        for name, found in run(written_out_on_cpu).items():
            assert leaves(found) == leaves(expected[name]), name


def test_only_programs_for_a_cpu_change() -> None:
    def program(change: Callable[..., Any], platform: str) -> str:
        draw = jax.jit(lambda key: change(random.split)(key))
        return draw.trace(random.key(0)).lower(lowering_platforms=(platform,)).as_text()

    assert "while" in program(lambda f: f, "cpu")
    assert "while" not in program(written_out_on_cpu, "cpu")
    assert "@threefry2x32" in program(written_out_on_cpu, "tpu")


def test_a_call_without_a_draw_stays_a_call() -> None:
    def program(change: Callable[..., Any], draws: bool) -> str:
        @jax.jit
        def called(key: jax.Array, x: jax.Array) -> jax.Array:
            return jnp.sin(x) + (random.uniform(key) if draws else 0)

        def calls(key: jax.Array, x: jax.Array) -> jax.Array:
            return called(key, called(key, random.uniform(key) + x))

        return jax.jit(change(calls)).lower(random.key(0), 1.0).as_text()

    assert program(written_out_on_cpu, False).count("call @called") == 2
    assert "call @called" in program(lambda f: f, True)
    assert "call @called" not in program(written_out_on_cpu, True)
