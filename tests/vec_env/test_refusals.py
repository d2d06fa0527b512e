"""What `VecEnv` refuses, in a sentence, and what it puts right without one."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CounterEnv, NestedEnv, PixelEnv, VectorConfig
from helpers import assert_trees_equal

from envrax import ClipReward, ExpandDims, JitWrapper, RecordVideo, VecEnv, Wrapper
from envrax.autoreset import Compact

F32 = np.float32
Change = Callable[..., Any]


class Flawed(CounterEnv):
    """A counter whose reset and step return something else, made of what they should return."""

    def __init__(self, at_reset: Change | None = None, at_step: Change | None = None) -> None:
        super().__init__(VectorConfig(max_steps=3))
        self.at_reset, self.at_step = at_reset, at_step

    def reset(self, rng: jax.Array) -> Any:
        out = super().reset(rng)
        return self.at_reset(*out) if self.at_reset else out

    def step(self, state: Any, action: Any) -> Any:
        out = super().step(state, action)
        return self.at_step(*out) if self.at_step else out


@cache
def counters() -> VecEnv[Any, Any, Any, Any]:
    return VecEnv(CounterEnv(), 3)


@cache
def state() -> Any:
    return counters().reset(jax.random.key(0))[1]


@pytest.mark.parametrize("num_envs", [0, -1])
def test_num_envs_below_one(num_envs: int) -> None:
    with pytest.raises(ValueError, match=f"expected num_envs to be at least 1; got {num_envs}"):
        VecEnv(CounterEnv(), num_envs)


@pytest.mark.parametrize("num_envs", [2.0, "2", None, True, [2], np.ones(2)])
def test_num_envs_that_is_no_integer(num_envs: Any) -> None:
    with pytest.raises(TypeError, match=r"VecEnv: expected num_envs to be an int"):
        VecEnv(CounterEnv(), num_envs)


@pytest.mark.parametrize("name", ["chunk"])
@pytest.mark.parametrize("size", [0, -2])
def test_a_chunk_below_one(name: str, size: int) -> None:
    with pytest.raises(ValueError, match=f"Compact: expected {name} to be at least 1; got {size}"):
        Compact(**{name: size})


@pytest.mark.parametrize("name", ["chunk"])
@pytest.mark.parametrize("size", [2.5, True, "a"])
def test_a_chunk_that_is_no_integer(name: str, size: Any) -> None:
    with pytest.raises(TypeError, match=f"Compact: expected {name} to be an int; got {size!r}"):
        Compact(**{name: size})


def test_something_that_is_no_env() -> None:
    with pytest.raises(TypeError, match="VecEnv: expected a JaxEnv; got"):
        VecEnv(CounterEnv, 2)  # pyright: ignore[reportArgumentType]


def test_a_stack_that_cannot_be_traced(tmp_path: Path) -> None:
    for wrap in (lambda env: env, ClipReward):
        env = wrap(RecordVideo(PixelEnv(), output_dir=tmp_path))
        with pytest.raises(RuntimeError, match="incompatible with JAX transforms") as error:
            VecEnv(env, 2)
        assert "RecordVideo" in str(error.value) and "render_slot" in str(error.value)


@pytest.mark.parametrize("make_rng", [jax.random.key, jax.random.PRNGKey])
@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_a_batch_of_keys(make_rng: Any, shape: tuple[int, ...]) -> None:
    keys = jax.random.split(make_rng(0), shape)
    with pytest.raises(ValueError, match="pass one key; VecEnv splits it") as error:
        counters().reset(keys)
    assert str(keys.shape) in str(error.value)


def test_a_legacy_key_of_the_wrong_shape() -> None:
    with pytest.raises(ValueError, match=r"one PRNG key of shape \(2,\); got shape \(3,\)"):
        counters().reset(jnp.zeros((3,), jnp.uint32))


@pytest.mark.parametrize("rng", [0, None, "key", np.int32(0), np.zeros(2, F32), [0, 0]])
def test_something_that_is_no_key(rng: Any) -> None:
    with pytest.raises(TypeError, match=r"VecEnv.reset: expected a PRNG key; got .*random.key"):
        counters().reset(rng)


WRONG_ACTIONS: list[tuple[Any, type[Exception], str]] = [
    (np.zeros(3, F32), TypeError, r"shape \(3,\), int32; got \(3,\) float32"),
    (jnp.zeros(3, jnp.bool_), TypeError, r"shape \(3,\), int32; got \(3,\) bool"),
    ([0.5, 0, 1], TypeError, "int32; got float 0.5"),
    ([True, 0, 1], TypeError, "int32; got bool True"),
    (np.zeros(2, np.int32), ValueError, r"shape \(3,\), int32; got \(2,\) int32"),
    (jnp.zeros((3, 1), jnp.int32), ValueError, r"shape \(3,\), int32; got \(3, 1\) int32"),
    (1, ValueError, r"shape \(3,\), int32; got int 1"),
    ([0, 1], ValueError, r"shape \(3,\), int32; got a list of length 2"),
    (None, TypeError, r"shape \(3,\), int32; got NoneType"),
]


@pytest.mark.parametrize(("actions", "kind", "message"), WRONG_ACTIONS)
def test_actions_of_another_kind_or_shape(actions: Any, kind: Any, message: str) -> None:
    for vec_env in (counters(), VecEnv(CounterEnv(), 3, jit_compile=False)):
        with pytest.raises(kind, match=f"VecEnv.step: expected actions.*{message}"):
            vec_env.step(state(), actions)


def test_nested_actions_of_another_structure() -> None:
    vec_env = VecEnv(NestedEnv(), 2)
    with pytest.raises(ValueError, match=r"expected actions .*keys \['move', 'turn'\]"):
        vec_env.step(None, {"move": [0, 1]})  # pyright: ignore[reportArgumentType]
    wrong = {"move": [0, 1], "turn": np.zeros((2, 2), F32)}
    with pytest.raises(TypeError, match=r"actions\['turn'\].*int32; got \(2, 2\) float32"):
        vec_env.step(None, wrong)  # pyright: ignore[reportArgumentType]


DISAGREEMENTS: dict[str, tuple[Change, str]] = {
    "dtype of the observation": (
        lambda obs, s, *rest: (obs.astype(F32), s, *rest),
        r"`obs`; got int32\[2\] at reset and float32\[2\] after a step",
    ),
    "shape of the observation": (
        lambda obs, s, *rest: (obs[:1], s, *rest),
        r"`obs`; got int32\[2\] at reset and int32\[1\] after a step",
    ),
    "structure of the observation": (
        lambda obs, s, *rest: ({"a": obs}, s, *rest),
        r"`obs`; got int32\[2\] at reset and no such leaf after a step",
    ),
    "dtype in the state": (
        lambda obs, s, *rest: (obs, s.replace(step=s.step.astype(F32)), *rest),
        r"`state\.step`; got int32\[\] at reset and float32\[\] after a step",
    ),
    "shape in the state": (
        lambda obs, s, *rest: (obs, s.replace(number=s.number[None]), *rest),
        r"`state\.number`; got int32\[\] at reset and int32\[1\] after a step",
    ),
    "structure of the state": (
        lambda obs, s, *rest: (obs, s.replace(number=(s.number, s.step)), *rest),
        r"`state\.number`; got int32\[\] at reset and no such leaf after a step",
    ),
    "missing leaf": (
        lambda obs, s, *rest: (obs, s.replace(number=None), *rest),
        r"`state\.number`; got int32\[\] at reset and no such leaf after a step",
    ),
}


@pytest.mark.parametrize("case", DISAGREEMENTS)
@pytest.mark.parametrize("wrap", [lambda env: env, ClipReward], ids=["bare", "wrapped"])
def test_a_reset_and_a_step_that_disagree(case: str, wrap: Any) -> None:
    change, message = DISAGREEMENTS[case]
    vec_env = VecEnv(wrap(Flawed(at_step=change)), 3)
    # Shapes are enough: nothing is compiled before the error.
    _, before = jax.eval_shape(vec_env.reset, jax.random.key(0))
    with pytest.raises(
        TypeError, match=f"Flawed: expected reset and step to agree on {message}"
    ) as e:
        jax.eval_shape(vec_env.step, before, np.zeros(3, np.int32))
    assert "Return the same structure, shapes and dtypes" in str(e.value)


def test_a_disagreement_is_an_error_of_the_first_real_step() -> None:
    vec_env = VecEnv(Flawed(lambda obs, s: (obs.astype(F32), s)), 3)
    _, before = vec_env.reset(jax.random.key(0))
    with pytest.raises(TypeError, match=r"`obs`; got float32\[2\] at reset and int32\[2\]"):
        vec_env.step(before, [0, 0, 0])


def test_containers_that_differ_in_no_leaf() -> None:
    flawed = Flawed(lambda obs, s: ((obs, []), s), lambda obs, s, *rest: ((obs, ()), s, *rest))
    vec_env = VecEnv(flawed, 3)
    _, before = jax.eval_shape(vec_env.reset, jax.random.key(0))
    with pytest.raises(TypeError, match=r"agree on the structure of obs and state"):
        jax.eval_shape(vec_env.step, before, np.zeros(3, np.int32))


NOT_BOOLS: dict[str, tuple[Change, str]] = {
    "float done": (lambda o, s, r, d, i: (o, s, r, d.astype(F32), i), r"expected done .*float32"),
    "int done": (lambda o, s, r, d, i: (o, s, r, d.astype(np.int32), i), r"expected done .*int32"),
    "done with an axis": (
        lambda o, s, r, d, i: (o, s, r, d[None], i),
        r"expected done .*\(1,\) bool",
    ),
    "float state.done": (
        lambda o, s, *rest: (o, s.replace(done=s.done.astype(F32)), *rest),
        r"expected new_state.done .*float32",
    ),
}
STACKS: dict[str, Any] = {
    "bare": lambda env: env,
    "jit": lambda env: JitWrapper(env, pre_warm=False),
    "wrapped": ClipReward,
    "jit on a wrapper": lambda env: JitWrapper(ClipReward(env), pre_warm=False),
    "wrapper on a jit": lambda env: ExpandDims(JitWrapper(env, pre_warm=False)),
}


@pytest.mark.parametrize("case", NOT_BOOLS)
@pytest.mark.parametrize("stack", STACKS)
def test_an_env_whose_done_is_no_bool_scalar(case: str, stack: str) -> None:
    change, message = NOT_BOOLS[case]
    vec_env = VecEnv(STACKS[stack](Flawed(at_step=change)), 3)
    _, before = jax.eval_shape(vec_env.reset, jax.random.key(0))
    with pytest.raises(TypeError, match=f"Flawed.step: {message}"):
        jax.eval_shape(vec_env.step, before, np.zeros(3, np.int32))


def python_values(obs: Any, s: Any) -> Any:
    return [0, 1.5], s.replace(step=0, done=False, number=np.int64(7))


def python_values_after(obs: Any, s: Any, reward: Any, done: Any, info: Any) -> Any:
    return [0, 1.5], s.replace(number=np.int64(7)), 1, False, {"one": 1, "x": np.float64(0.5)}


def test_python_and_numpy_values_become_strongly_typed_arrays(compile_counter: Any) -> None:
    """In observation, state, reward, done and info; `state.done` alone ends the episode."""
    vec_env = VecEnv(Flawed(python_values, python_values_after), 3)
    _, first = vec_env.reset(jax.random.key(0))
    with compile_counter() as compiled:
        out, steps = vec_env.step(first, [0, 0, 0]), []
        for _ in range(3):
            out = vec_env.step(out[1], [0, 0, 0])
            steps.append(np.asarray(out[1].step).tolist())
    assert compiled.count == 1
    assert steps == [[2] * 3, [0] * 3, [1] * 3]
    assert not any(leaf.weak_type for leaf in jax.tree.leaves((out[:1], out[2:])))
    assert out[3].dtype == jnp.bool_ and not out[3].any()
    assert out[0][1].dtype == jnp.float32 and out[4]["one"].shape == (3,)
    final, _ = jax.lax.scan(lambda s, a: (vec_env.step(s, a)[1], 0), first, np.zeros((4, 3), int))
    assert_trees_equal(final, out[1])


def test_weak_types_are_canonicalised_silently(compile_counter: Any) -> None:
    def weak(obs: Any, s: Any) -> Any:
        return obs, s.replace(number=jnp.asarray(5), step=jnp.asarray(0))

    vec_env = VecEnv(Flawed(weak), 3)
    rng = jax.random.key(0)
    with compile_counter() as compiled:
        _, s = vec_env.reset(rng)
        for _ in range(3):
            s = vec_env.step(s, [0, 0, 0])[1]
    assert compiled.count == 2
    assert not s.number.weak_type and int(s.number[0]) == 5


@pytest.mark.parametrize("value", [np.True_, pytest.param(True, marks=pytest.mark.slow)])
def test_a_host_bool_done_ends_the_episode(value: Any) -> None:
    vec_env = VecEnv(Flawed(at_step=lambda o, s, r, d, i: (o, s, r, value, i)), 2)
    first = vec_env.reset(jax.random.key(0))
    out = vec_env.step(first[1], [0, 0])
    assert out[3].all() and out[3].dtype == jnp.bool_
    assert not out[1].step.any()


@pytest.mark.slow
def test_an_env_that_never_sets_its_state_done_still_ends() -> None:
    def forgetful(obs: Any, s: Any, *rest: Any) -> Any:
        return (obs, s.replace(done=jnp.bool_(False)), *rest)

    class Through(Wrapper[Any, Any, Any, Any]):
        """A wrapper that adds nothing."""

    # The done of the bare env is a Python-visible bool scalar; above a wrapper that re-types it,
    # only the state is left to tell.
    for wrap in (lambda env: env, lambda env: ExpandDims(Through(env))):
        vec_env = VecEnv(wrap(Flawed(at_step=forgetful)), 2)
        _, s = vec_env.reset(jax.random.key(0))
        seen = []
        for _ in range(4):
            _, s, _, done, _ = vec_env.step(s, [0, 0])
            seen.append((int(s.step[0]), bool(done.all())))
        assert seen == [(1, False), (2, False), (0, True), (1, False)]


@pytest.mark.parametrize(
    "actions",
    [
        [99, -1, 2**31 - 1],
        pytest.param(np.asarray([-5, 1000, 3], np.int32), marks=pytest.mark.slow),
    ],
)
def test_a_discrete_action_out_of_range_does_not_crash(actions: Any) -> None:
    class Table(CounterEnv):
        def step(self, state: Any, action: Any) -> Any:
            out = super().step(state, action)
            table = jnp.arange(3, dtype=jnp.float32)
            return (*out[:2], table[action], *out[3:])

    vec_env = VecEnv(Table(), 3)
    reward = vec_env.step(state(), actions)[2]
    assert np.isfinite(reward).all()


def test_a_space_that_is_a_method_is_refused() -> None:
    class Methodical(CounterEnv):
        def action_space(self) -> Any:  # type: ignore[override]
            return super().action_space

    with pytest.raises(
        TypeError, match=r"Methodical\.action_space to be a Space; got <bound method"
    ):
        VecEnv(Methodical(), 2)
