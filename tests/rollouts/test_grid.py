"""`evaluate_grid`: against `evaluate` of an environment for each point, and its table."""

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import VectorEnv
from wrapper_rows import draw_gravity

import envrax
from envrax import DomainRandomization, RecordEpisodeStatistics, TimeLimit, VecEnv, evaluate_grid
from envrax.classic import CartPole, CartPoleConfig, Maze
from envrax.testing import CountingEnv

KEY = jax.random.key(0)
GRID = {"half_length": [0.25, 1.0], "force": [5, 10.0, 20.0]}


def lean(policy_state: Any, obs: Any, rng: jax.Array) -> Any:
    """Push to the side to which the pole leans."""
    return (obs[2] > policy_state).astype(jnp.int32), policy_state, None


@pytest.fixture(scope="module")
def found() -> envrax.GridEvaluation:
    return evaluate_grid(CartPole(), lean, KEY, GRID, 4, policy_state=0.0, max_steps=60)


def test_each_point_is_an_evaluation_of_its_own(found: envrax.GridEvaluation) -> None:
    assert found.returns.shape == found.lengths.shape == found.complete.shape == (2, 3, 4)
    assert found.grid == GRID and [*found.grid] == ["half_length", "force"]
    assert len(np.unique(found.lengths)) > 4 and not found.complete.all()
    config = CartPoleConfig(half_length=GRID["half_length"][0], force=GRID["force"][1])
    one = envrax.evaluate(CartPole(config), lean, KEY, 4, policy_state=0.0, max_steps=60)
    np.testing.assert_array_equal(found.lengths[0, 1], one.lengths)
    np.testing.assert_array_equal(found.complete[0, 1], one.complete)
    np.testing.assert_allclose(found.returns[0, 1], one.returns, rtol=1e-5)


def test_its_axes_stay_in_order_as_jax_maps_over_it(found: envrax.GridEvaluation) -> None:
    assert str(jax.device_get(found)) == str(jax.tree.map(jnp.asarray, found)) == str(found)


def test_it_is_one_compiled_call_which_transfers_nothing(compile_counter: Any) -> None:
    env = CountingEnv()
    with compile_counter() as compiled, jax.transfer_guard("disallow"):
        evaluate_grid(env, None, KEY, {"max_steps": [2, 3, 4]}, 2)
    assert compiled.count == 1
    with compile_counter() as compiled:
        evaluate_grid(env, None, KEY, {"max_steps": [5, 6, 7]}, 2)
    assert compiled.count == 0


def _of(grid: dict[str, Any]) -> envrax.GridEvaluation:
    shape = (*map(len, grid.values()), 2)
    returns = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return envrax.GridEvaluation(returns, np.int32(returns), returns > 0, returns > 0, {}, grid)


def test_the_table() -> None:
    assert str(_of({"force": [5.0, 10.0]})) == "   force=5    force=10\n0.5 +- 0.5  2.5 +- 0.5"
    two = _of({"mass": [1, 22], "force": [0.5, 1 / 3]})
    assert two.table() == (
        "mass   force=0.5  force=0.3333\n"
        "   1  0.5 +- 0.5    2.5 +- 0.5\n"
        "  22  4.5 +- 0.5    6.5 +- 0.5"
    )
    four = str(_of({"a": [1, 2], "b": [3], "mass": [1], "force": [7]}))
    assert four == "a  b  mass     force=7\n1  3     1  0.5 +- 0.5\n2  3     1  2.5 +- 0.5"
    arrays = str(_of({"params": [{"mass": np.ones(2)}, {"mass": np.arange(90.0)}]})).splitlines()
    assert arrays[0].split() == ["params=#0", "params=#1"]
    assert arrays[2:3] == ["params #0: {'mass': array([1., 1.])}"]
    assert arrays[3].startswith("params #1: {'mass': array([ 0., 1.") and len(arrays[3]) == 91


def test_the_table_of_several_policies_has_a_row_for_each() -> None:
    returns = np.random.default_rng(0).uniform(0, 60, (2, 3, 2, 3, 4)).astype(np.float32)
    ends = returns > 30
    found = envrax.GridEvaluation(returns, np.int32(returns), ends, ends, {}, GRID)
    header, *rows = found.table("policy", "seed").splitlines()
    plain = str(jax.tree.map(lambda x: x[0, 1], found._replace(grid={}))._replace(grid=GRID))
    plain = plain.splitlines()
    assert header.split() == ["policy", "seed", *plain[0].split()]
    assert [row.split()[:2] for row in rows[::2]] == [[i, j] for i in "01" for j in "012"]
    assert [row.split()[2:] for row in rows[2:4]] == [row.split() for row in plain[1:]]
    unnamed = [row.split() for row in str(found).splitlines()[1:]]
    assert unnamed == [row.split() for row in rows]

    header, *rows = found.table("policy", "seed", over="seed").splitlines()
    seeds = np.asarray(found.returns[1, :, 0, 2].mean(-1))
    error = seeds.std(ddof=1) / np.sqrt(3)
    assert header.split()[0] == "policy" and "seed" not in header and len(rows) == 4
    assert rows[2].endswith(f"{seeds.mean():.4g} +- {error:.2g}")

    for axes, over in ((("policy",), ""), (("policy", "seed"), "sead")):
        with pytest.raises(ValueError, match="expected names of 2 leading axes"):
            found.table(*axes, over=over)


def test_the_table_has_a_header_for_each_grid_that_is_mapped() -> None:
    def found(limit: Any) -> envrax.GridEvaluation:
        return evaluate_grid(CountingEnv(), None, KEY, {"max_steps": [limit, limit + 1]}, 2)

    text = jax.jit(jax.vmap(found))(jnp.asarray([2, 5])).table("limit")
    headers = [line.split() for line in text.splitlines()[::2]]
    assert headers == [["limit", f"max_steps={n}", f"max_steps={n + 1}"] for n in (2, 5)]
    assert [line.split()[0] for line in text.splitlines()[1::2]] == ["0", "1"]


@pytest.mark.parametrize(
    ("env", "grid", "error", "noun"),
    [
        (CartPole(), {}, ValueError, "values"),
        (CartPole(), {"force": []}, ValueError, "values"),
        (CartPole(), {"forse": [1.0]}, TypeError, "mean force"),
        (CartPole(), {"force": ["big"]}, TypeError, "force"),
        *(
            (CartPole(), {"max_steps": values}, error, f"evaluate_grid: expected .*{noun}")
            for values, error, noun in (
                (["12"], TypeError, "`max_steps` to be numbers"),
                ([[1, 2], 2], TypeError, "`max_steps` to be numbers"),
                ([2, 0], ValueError, "max_steps to be at least 1; got 0"),
                ([2.5], TypeError, "max_steps to be an int; got 2.5"),
                ([True], TypeError, "max_steps to be an int; got True"),
            )
        ),
        (Maze(), {"size": [3, 5]}, TypeError, "size"),
        (VecEnv(CartPole(), 2), {"force": [1.0]}, TypeError, "JaxEnv"),
        (DomainRandomization(VectorEnv(), draw_gravity), {"gravity": [1.0]}, TypeError, "gravity"),
    ],
)
def test_what_is_refused(env: Any, grid: Any, error: Any, noun: str) -> None:
    with pytest.raises(error, match=noun):
        evaluate_grid(env, None, KEY, grid, 2)


def test_a_large_limit_is_none() -> None:
    grid = {"max_steps": [3, sys.maxsize, np.uint32(2**31)]}
    found = evaluate_grid(CountingEnv(), None, KEY, grid, 1, max_steps=9)
    assert found.lengths.tolist() == [[3], [9], [9]]
    assert found.complete.tolist() == [[True], [False], [False]]


def test_ints_stay_ints_of_32_bits_with_x64() -> None:
    with jax.enable_x64(True):
        found = evaluate_grid(CountingEnv(), None, jax.random.key(0), {"max_steps": [3, 4]}, 2)
        assert found.lengths.tolist() == [[3, 3], [4, 4]]
        draw = lambda rng: {"max_steps": jax.random.randint(rng, (), 2, 9)}  # noqa: E731
        with pytest.raises(TypeError, match=r"of a dtype within int32.*Cast it to int32"):
            DomainRandomization(CountingEnv(), draw).reset(jax.random.key(0))


def test_time_limits_and_the_callers_own_jit() -> None:
    """A limit of the config is that of each point, one of a wrapper's own stays."""
    envs = [RecordEpisodeStatistics(TimeLimit(CountingEnv(), max_steps=n)) for n in (3, None)]

    @jax.jit
    def lengths(limits: Any) -> Any:
        grid = {"max_steps": [*limits]}
        return [evaluate_grid(env, None, KEY, grid, 2).lengths for env in envs]

    found = lengths(jnp.asarray([2, 7], jnp.int32))
    assert [x.tolist() for x in found] == [[[2, 2], [3, 3]], [[2, 2], [7, 7]]]
