"""What `VecEnv` refuses, and what it converts; error_messages.md has whole messages."""

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CounterEnv, VectorConfig
from helpers import assert_trees_equal

from envrax import Box, ClipReward, Discrete, RecordEpisodeStatistics, StickyAction, Tuple, VecEnv
from envrax.autoreset import Compact

F32 = np.float32
KEY, LEGACY = jax.random.key(0), jax.random.PRNGKey(0)
Change = Callable[..., Any]


class Flawed(CounterEnv):
    """A counter whose reset and step return something else, made of what they should return."""

    def __init__(
        self, at_reset: Change | None = None, at_step: Change | None = None, space: Any = None
    ) -> None:
        super().__init__(VectorConfig(max_steps=3))
        self.at_reset, self.at_step, self.space = at_reset, at_step, space

    @property
    def observation_space(self) -> Any:
        return self.space or super().observation_space

    def reset(self, rng: jax.Array) -> Any:
        out = super().reset(rng)
        return self.at_reset(*out) if self.at_reset else out

    def step(self, state: Any, action: Any) -> Any:
        out = super().step(state, action)
        return self.at_step(*out) if self.at_step else out


@cache
def counters() -> VecEnv[Any, Any, Any, Any]:
    return VecEnv(CounterEnv(), 3)


def eager() -> VecEnv[Any, Any, Any, Any]:
    return VecEnv(CounterEnv(), 3, jit_compile=False)


REFUSED: list[tuple[Any, Any, str]] = [
    *((lambda n=n: VecEnv(CounterEnv(), n), TypeError, "num_envs") for n in ("2", True, [2])),
    *((lambda size=size: Compact(size), TypeError, "chunk") for size in (2.5, True)),
    *(
        (lambda given=given: VecEnv(CounterEnv(), 2, autoreset=given), TypeError, "autoreset")
        for given in (0, True, "disabled", 2, Compact)
    ),
    (lambda: counters().step(jnp.zeros(3, jnp.int32)), TypeError, r"step\(\) missing"),  # no state
    (lambda: eager().step(counters().reset(KEY)[1], [0, 1]), ValueError, "actions"),
    *(
        (lambda value=value: with_action_space(value), TypeError, r"Own\.action_space: .* a space")
        for value in (2, {"x": Discrete(2)}, lambda env: Discrete(2))
    ),
    (lambda: with_action_space(property(lambda env: None))().action_space, TypeError, "got None"),
    *(
        (lambda rng=rng: counters().reset(rng), TypeError, "PRNG key")
        for rng in (None, "key", np.int32(0), np.zeros(2, F32), [0, 0])
    ),
    (lambda: counters().reset(jax.random.split(KEY, (2, 3))), ValueError, r"\(2, 3\)"),
    (lambda: counters().reset(jax.random.split(LEGACY, 3)), ValueError, r"\(3, 2\)"),
    (lambda: counters().reset(jnp.zeros(3, jnp.uint32)), ValueError, r"\(2,\)"),
]


def with_action_space(value: Any) -> Any:
    return type("Own", (CounterEnv,), {"action_space": value})


def test_a_space_may_be_the_field_of_a_dataclass() -> None:
    field: Any = dataclasses.field(default=Discrete(3))
    own: Any = type("Own", (CounterEnv,), {"action_space": field})
    own.__annotations__ = {"action_space": Discrete}
    own.__post_init__ = lambda self: CounterEnv.__init__(self)
    made = dataclasses.dataclass(eq=False)(own)()
    assert VecEnv(made, 2).action_space == Discrete(3).batch(2)


@pytest.mark.parametrize(("call", "error", "noun"), REFUSED)
def test_what_is_refused(call: Any, error: Any, noun: str) -> None:
    with pytest.raises(error, match=noun):
        call()


def sticky(env: Any) -> Any:
    return StickyAction(env, repeat_action_probability=0.5)


@pytest.mark.parametrize(
    ("wrap", "wrap_other", "expected", "got"),
    [
        (ClipReward, RecordEpisodeStatistics, "FakeState", "EpisodeStatisticsState"),
        (RecordEpisodeStatistics, sticky, "EpisodeStatisticsState", "StickyActionState"),
    ],
)
def test_the_state_of_another_stack(wrap: Any, wrap_other: Any, expected: str, got: str) -> None:
    other = jax.eval_shape(VecEnv(wrap_other(CounterEnv()), 3).reset, KEY)[1]
    for options in ({}, {"jit_compile": False}):
        step = VecEnv(wrap(CounterEnv()), 3, **options).step
        with pytest.raises(TypeError, match=f"of class {expected}.*; got {got}") as caught:
            jax.eval_shape(step, other, jnp.zeros(3, jnp.int32))
        assert isinstance(caught.value.__cause__, Exception)  # what the environment raised


# What `step` returns, and the leaf that does not agree with `reset` or is no bool.
DISAGREEMENTS: dict[str, tuple[Change, str]] = {
    "dtype of the observation": (lambda obs, s, *rest: (obs.astype(F32), s, *rest), "`obs`"),
    "structure of the observation": (lambda obs, s, *rest: ({"a": obs}, s, *rest), "`obs`"),
    "shape in the state": (
        lambda obs, s, *rest: (obs, s.replace(number=s.number[None]), *rest),
        r"`state\.number`",
    ),
    "float done": (lambda o, s, r, d, i: (o, s, r, d.astype(F32), i), "done"),
    "done with an axis": (lambda o, s, r, d, i: (o, s, r, d[None], i), "done"),
    "float state.done": (
        lambda o, s, *rest: (o, s.replace(done=s.done.astype(F32)), *rest),
        r"new_state\.done",
    ),
}


@pytest.mark.parametrize("case", DISAGREEMENTS)
@pytest.mark.parametrize("options", [{}, dict(autoreset=False)], ids=["on", "off"])
def test_a_reset_and_a_step_that_disagree(case: str, options: Any) -> None:
    change, leaf = DISAGREEMENTS[case]
    vec_env = VecEnv(ClipReward(Flawed(at_step=change)), 3, **options)
    # Shapes are enough: nothing is compiled before the error.
    _, before = jax.eval_shape(vec_env.reset, KEY)
    with pytest.raises(TypeError, match=f"Flawed.*{leaf}"):
        jax.eval_shape(vec_env.step, before, np.zeros(3, np.int32))


def test_containers_that_differ_in_no_leaf() -> None:
    space = Tuple((CounterEnv().observation_space,))
    flawed = Flawed(lambda obs, s: ([obs], s), lambda obs, s, *rest: ((obs,), s, *rest), space)
    vec_env = VecEnv(flawed, 3)
    _, before = jax.eval_shape(vec_env.reset, KEY)
    with pytest.raises(TypeError, match="structure"):
        jax.eval_shape(vec_env.step, before, np.zeros(3, np.int32))


def python_values(obs: Any, s: Any) -> Any:
    return [0, 1.5], s.replace(step=0, done=False, number=np.int64(7))


def python_values_after(obs: Any, s: Any, reward: Any, done: Any, info: Any) -> Any:
    return [0, 1.5], s.replace(number=np.int64(7)), 1, False, {"one": 1, "x": np.float64(0.5)}


def test_python_and_numpy_values_become_strongly_typed_arrays(compile_counter: Any) -> None:
    """In observation, state, reward, done and info; only `state.done` ends the episode."""
    space = Tuple((Discrete(2), Box(0.0, 2.0, ())))
    vec_env = VecEnv(Flawed(python_values, python_values_after, space), 3)
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


def test_a_list_is_no_observation_of_an_array() -> None:
    space = Box(0, 1000, (2,), jnp.int32)
    env = VecEnv(Flawed(lambda obs, state: ([state.step, state.step], state), space=space), 3)
    with pytest.raises(TypeError, match="Box"):
        env.reset(KEY)
