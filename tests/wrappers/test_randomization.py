"""Fields of the config drawn per episode: against environments built with the same values."""

import copy
import pickle
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, cast

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CoinEnv, PixelEnv, VectorConfig, VectorEnv
from helpers import assert_trees_close, assert_trees_equal, jax_flag, random_actions
from wrapper_rows import draw_gravity

import envrax
from envrax import (
    Box,
    DomainRandomization,
    TimeAwareObservation,
    TimeLimit,
    VecEnv,
    evaluate_grid,
    with_config,
)
from envrax.autoreset import Compact, Select
from envrax.classic import CartPole, CartPoleConfig, Maze
from envrax.env import carries_over
from envrax.testing import CountingEnv, report_env
from envrax.testing.fakes import FakeConfig

F32 = jnp.float32
KEY = jax.random.key(0)
LENGTHS = (4, 7)


def draw_pole(rng: jax.Array) -> dict[str, Any]:
    a, b = jax.random.uniform(rng, (2,), F32, 0.5, 2.0)
    return {"half_length": 0.5 * a, "force": 10.0 * b}


def draw_limit(rng: jax.Array) -> dict[str, Any]:
    return {"max_steps": jax.random.randint(rng, (), 2, 9, jnp.int32)}


def play(env: Any, rng: jax.Array, n_steps: int = 12) -> Any:
    """All that a reset and some steps return."""
    actions = random_actions(env.action_space, (n_steps,))

    def run(rng: Any, actions: Any) -> Any:
        first, state = env.reset(rng)

        def step(state: Any, action: Any) -> Any:
            obs, state, *rest = env.step(state, action)
            return state, (obs, state, *rest)

        return first, state, jax.lax.scan(step, state, actions)[1]

    return jax.jit(run)(rng, actions)


def test_a_drawn_value_equals_the_same_value_in_the_config() -> None:
    rng = jax.random.key(3)
    first, state, (obs, states, *rest) = play(DomainRandomization(CartPole(), draw_pole), rng)
    config = CartPoleConfig(**{k: float(x) for k, x in state.fields.items()})
    assert config.force != 10.0
    expected = play(CartPole(config), jax.random.split(rng)[0])
    got = first, state.env_state, (obs, states.env_state, *rest)
    assert_trees_close(got, expected, rtol=1e-5, atol=1e-6)


def test_the_key_rule() -> None:
    rng, key = jax.random.split(KEY)
    obs, state = jax.jit(DomainRandomization(VectorEnv(), draw_gravity).reset)(KEY)
    fields, expected = jax.jit(
        lambda: (draw_gravity(key), VectorEnv(VectorConfig(**draw_gravity(key))).reset(rng))
    )()
    assert_trees_equal(state.fields, fields)
    assert_trees_equal((obs, state.env_state), expected)


@pytest.mark.parametrize(
    ("autoreset", "redraw"),
    [pytest.param(Compact(), False, marks=pytest.mark.slow), (Select(), True)],
)
def test_slots_are_environments_of_their_own(autoreset: Any, redraw: bool) -> None:
    """Across auto-reset, each slot does what one env of its drawn limit does."""
    env = DomainRandomization(CountingEnv(), draw_limit, redraw)
    batch = VecEnv(env, 5, autoreset=autoreset)
    _, state = batch.reset(jax.random.key(1))
    assert len(set(state.fields["max_steps"].tolist())) > 1
    seen: list[Any] = []
    step = jax.jit(partial(batch.step))
    for _ in range(30):
        limit, at = np.asarray(state.fields["max_steps"]), np.asarray(state.step)
        _, state, _, done, _ = step(state, jnp.zeros(5, jnp.int32))
        np.testing.assert_array_equal(done, at + 1 == limit)
        kept = np.asarray(state.fields["max_steps"]) == limit
        assert (kept | np.asarray(done) if redraw else kept).all()
        seen.append(limit)
    assert step._cache_size() == 1  # compiled once
    changes = np.ptp(np.stack(seen), axis=0)
    assert (changes > 0).all() if redraw else (changes == 0).all()


def test_a_sample_may_ask_for_the_environment() -> None:
    def sample(rng: Any, env: Any) -> Any:
        return {"max_steps": env.config.max_steps + jax.random.randint(rng, (), 1, 9)}

    env = DomainRandomization(CountingEnv(), sample)
    drawn = env.reset(KEY)[1].fields["max_steps"] - CountingEnv().config.max_steps
    assert 1 <= drawn < 9
    bound = DomainRandomization(CountingEnv(), partial(sample, env=CountingEnv()))
    assert_trees_equal(bound.reset(KEY), env.reset(KEY))


def test_auto_reset_is_a_reset_where_fields_are_redrawn() -> None:
    env = DomainRandomization(CountingEnv(), draw_limit)
    assert not carries_over(env)
    assert carries_over(DomainRandomization(CountingEnv(), draw_limit, False))
    _, state = env.reset(KEY)
    expected = env.reset(jax.random.split(state.rng)[0])
    assert_trees_equal(env.reset_after(state), expected)


class Lives(CountingEnv):
    """An episode begins with the number of the last one, plus one."""

    def reset_after(self, state: Any) -> Any:
        _, fresh = self.reset(jax.random.split(state.rng)[0])
        fresh = fresh.replace(number=state.number + 1)
        return self.observe(fresh), fresh


@pytest.mark.parametrize("redraw", [True, False])
def test_what_lasts_longer_than_an_episode_is_handed_on(redraw: bool) -> None:
    env = DomainRandomization(Lives(), draw_limit, redraw)
    _, state = env.reset(KEY)
    (number, _), after = env.reset_after(state)
    assert number == state.env_state.number + 1
    if redraw:
        rng, key = jax.random.split(state.rng)
        assert_trees_equal(after.fields, draw_limit(key))
        assert_trees_equal(after.rng, Lives().reset(jax.random.split(rng)[0])[1].rng)
    else:
        assert_trees_equal(after.fields, state.fields)


class Derived(VectorEnv):
    """What its `__init__` makes of the config counts."""

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.pull = self.config.gravity * 2.0

    @cached_property
    def push(self) -> Any:
        return self.config.gravity * 3.0

    def step(self, state: Any, action: jax.Array) -> tuple[Any, ...]:
        obs, state, reward, done, info = super().step(state, action)
        return obs, state, jnp.asarray(self.pull + self.push, F32), done, info


def test_what_the_class_derives_from_the_config_is_drawn_too() -> None:
    env = Derived()
    assert env.pull + env.push == 2.5  # and the second is cached
    _, state, (_, _, reward, _, _) = play(DomainRandomization(env, draw_gravity), KEY)
    np.testing.assert_allclose(reward, jnp.full(12, 5 * state.fields["gravity"]), rtol=1e-6)
    assert env.pull + env.push == 2.5


@pytest.mark.slow
def test_wrappers_follow() -> None:
    """One that reads the config when it is built refuses what it needs to know."""
    compiled = envrax.JitWrapper(VectorEnv(), pre_warm=False)
    both = [DomainRandomization(x, draw_gravity) for x in (compiled, VectorEnv())]
    assert_trees_equal(*jax.jit(lambda: [env.reset(KEY) for env in both])())
    stack = envrax.RecordEpisodeStatistics(TimeLimit(VectorEnv(), max_steps=3))
    _, _, (_, _, _, done, _) = play(DomainRandomization(stack, draw_gravity), KEY)
    assert done[2] and not done[:2].any()
    assert with_config(TimeLimit(CountingEnv(), max_steps=3), max_steps=2).max_steps == 3
    _, state, (_, _, _, done, _) = play(
        DomainRandomization(TimeLimit(CountingEnv()), draw_limit), KEY
    )
    assert np.flatnonzero(done)[0] + 1 == state.fields["max_steps"]
    with pytest.raises(TypeError, match="drawn"):
        TimeLimit(DomainRandomization(CountingEnv(), draw_limit))
    pixels = envrax.AtariPreprocessing(PixelEnv(), noop_max=3, screen_size=6)
    changed = with_config(pixels, max_steps=9)
    assert changed.config.max_steps == 9 and repr(changed) == repr(
        envrax.AtariPreprocessing(PixelEnv(VectorConfig(max_steps=9)), noop_max=3, screen_size=6)
    )


@pytest.mark.slow
def test_what_sample_closes_over_may_be_traced() -> None:
    keys = jax.random.split(KEY, 2)

    def total(env: Any, rngs: Any) -> jax.Array:
        _, states = jax.vmap(env.reset)(rngs)
        return jnp.sum(VecEnv(env, 2).step(states, jnp.zeros(2, jnp.int32))[2])

    def drawn(gravity: jax.Array) -> jax.Array:
        return total(DomainRandomization(VectorEnv(), lambda _: {"gravity": gravity}), keys)

    inner_keys = jax.vmap(lambda rng: jax.random.split(rng)[0])(keys)
    expected = [total(VectorEnv(VectorConfig(gravity=x)), inner_keys) for x in (0.25, 1.0)]
    with jax_flag("jax_check_tracer_leaks", True):
        got = jax.jit(jax.vmap(drawn))(jnp.asarray([0.25, 1.0], F32))
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    slope = jax.grad(drawn)(F32(1.0))
    np.testing.assert_allclose(slope, 2 * drawn(F32(1.0)), rtol=1e-4)  # quadratic in gravity


@pytest.mark.slow
def test_it_keeps_the_contract() -> None:
    assert not report_env(DomainRandomization(VectorEnv(), draw_gravity, redraw=False)).findings


def test_it_can_be_copied() -> None:
    env = DomainRandomization(VectorEnv(), draw_gravity, redraw=False)
    for again in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert_trees_equal(again.reset(KEY), env.reset(KEY))
        assert again.redraw is False and with_config(again, max_steps=3).env.config.max_steps == 3
    factory: Any = DomainRandomization(sample=draw_gravity, redraw=False)
    assert factory(VectorEnv()).redraw is False


def test_render_and_mask_are_those_of_the_episode() -> None:
    class Drawn(CountingEnv):
        def render(self, state: Any) -> np.ndarray:
            return np.full((8, 8, 3), int(self.config.max_steps), np.uint8)

        def action_mask(self, state: Any) -> jax.Array:
            return jnp.arange(3, dtype=jnp.int32) < self.config.max_steps - 1

    env = DomainRandomization(Drawn(), lambda _: {"max_steps": 2})
    _, state = env.reset(KEY)
    assert (env.render(state) == 2).all()
    assert env.action_mask(state).tolist() == [True, False, False]


def test_the_config_of_the_wrapper_has_no_value_for_what_is_drawn() -> None:
    config = DomainRandomization(CartPole(), draw_pole).config
    assert config.gravity == 9.8 and repr(config.force) == "<force is drawn>"


class Sized(VectorEnv):
    """A space that depends on the config, and is kept by `__init__`."""

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._space = Box(-self.config.gravity, self.config.gravity, (3,))

    @property
    def observation_space(self) -> Box:
        return self._space


class More(VectorEnv):
    def __init__(self, config: Any = None, noise: float = 0.0) -> None:
        super().__init__(config)
        self.noise = noise


@chex.dataclass
class GoalConfig(VectorConfig):
    goal: tuple[float, float] = (0.0, 1.0)
    gains: Any = None
    weight: float = 3  # an int where floats are meant


class Goal(VectorEnv):
    config: Any

    def __init__(self, config: Any = None) -> None:
        super().__init__(config or GoalConfig(gains=np.ones(2, np.float16)))


def always(**fields: Any) -> Callable[[jax.Array], dict[str, Any]]:
    return lambda rng: fields


class Small(CountingEnv):
    """Observes in int8, to which a drawn number must not add its int32."""

    @property
    def observation_space(self) -> Any:
        return Box(-100, 100, (2,), jnp.int8)

    def reset(self, rng: jax.Array) -> Any:
        obs, state = super().reset(rng)
        return obs.astype(jnp.int8) + self.config.max_steps, state

    def step(self, state: Any, action: Any) -> Any:
        obs, *rest = super().step(state, action)
        return obs.astype(jnp.int8) + self.config.max_steps, *rest


@pytest.mark.parametrize(
    ("env", "sample", "noun"),
    [
        (CartPole(), always(half_lenght=1.0), "half_length"),
        (CartPole(), always(force="strong"), "numbers"),
        (CartPole(), always(max_steps=2.5), "integer"),
        (CartPole(), always(force=jnp.ones(2)), "float"),
        (CoinEnv(), always(reset_kind=1), "static"),
        (Goal(), always(goal=jnp.ones(2)), "structured"),
        (Goal(), always(gains=jnp.ones(3)), "shape"),
        (Maze(), always(size=5, step_cost=0.1), "static"),
        (Sized(), always(gravity=0.5), "static"),
        (Small(), draw_limit, "int8"),
        (More(), always(gravity=0.5), "config"),
        (CartPole(), lambda rng: [1.0], "dict"),
        (
            DomainRandomization(VectorEnv(), draw_gravity),
            draw_gravity,
            "inside of it draws; got gravity",
        ),
    ],
)
def test_what_would_be_lost_or_wrong_is_refused(env: Any, sample: Any, noun: str) -> None:
    with jax.numpy_dtype_promotion("standard"), pytest.raises(TypeError, match=noun):
        DomainRandomization(env, sample)


@chex.dataclass
class HalvedConfig(FakeConfig):
    half: float = 0.0

    def __post_init__(self) -> None:
        self.half = self.max_steps / 2


class Halved(CountingEnv):
    config: Any

    def __init__(self, config: Any = None) -> None:
        super().__init__(config or HalvedConfig())


def test_a_config_that_computes_its_fields_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^with_config of Halved: .* without `__post_init__`"):
        with_config(Halved(), max_steps=3)
    with pytest.raises(TypeError, match=r"^with_config of Halved: .* without `__post_init__`"):
        evaluate_grid(Halved(), None, jax.random.key(0), {"max_steps": [3]}, 2)


def test_what_fits() -> None:
    env = DomainRandomization(
        cast(Any, Goal()), always(goal=(1, 2.0), gains=jnp.ones(2), weight=2.5, max_steps=4)
    )
    configured: Any = with_config(env.env, **env.reset(KEY)[1].fields)
    found = {k: jax.tree.leaves(x) for k, x in vars(configured.config).items() if k != "gravity"}
    types = {k: [(x.dtype.name, x.weak_type) for x in leaves] for k, leaves in found.items()}
    assert types["goal"] == [("float32", False)] * 2
    assert types["weight"] == [("float32", False)] and types["max_steps"] == [("int32", False)]
    assert types["gains"] == [("float16", False)]


def test_a_subclass_is_refused() -> None:
    """Its `reset` would draw again where a slot should keep what it drew."""
    with pytest.raises(TypeError, match="subclass"):

        class _Drawing(DomainRandomization[Any, Any, Any, Any]):
            pass


OPERATIONS: list[Callable[[Any], Any]] = [
    *(lambda x: x < 3, lambda x: x >= 3, lambda x: x == 3, lambda x: x != 3, bool, hash),
    *(lambda x: x * 2, lambda x: 2 * x, lambda x: x + 1, lambda x: 1 - x, lambda x: x / 2),
    *(lambda x: 2**x, lambda x: x // 2, lambda x: 7 % x, lambda x: -x, abs, round),
    *(float, int, lambda x: [1, 2][x], range, lambda x: x[0], list, len),
    *(np.asarray, jnp.asarray, lambda x: np.float32(1) * x, lambda x: jnp.ones(2) + x),
]


@pytest.mark.parametrize("use", OPERATIONS)
def test_any_use_of_a_drawn_field_outside_is_refused_by_name(use: Any) -> None:
    env = DomainRandomization(CountingEnv(), draw_limit)
    with pytest.raises(TypeError, match=r"DomainRandomization: .* `config\.max_steps`"):
        use(env.config.max_steps)


def test_a_time_of_a_drawn_limit_needs_a_time_limit() -> None:
    env = DomainRandomization(CountingEnv(), draw_limit)
    with pytest.raises(TypeError, match=r"`config\.max_steps` .* `TimeLimit\(env, max_steps"):
        TimeAwareObservation(env)
    timed = TimeAwareObservation(TimeLimit(env, max_steps=9), flatten=False)
    assert timed.observation_space["time"].high == 9


def test_a_dict_for_a_sample_and_a_part_of_a_name_are_named() -> None:
    with pytest.raises(TypeError, match="expected sample to be a function of a key; got"):
        DomainRandomization(CartPole(), {"force": 5.0})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"got mass\. Did you mean cart_mass and pole_mass"):
        DomainRandomization(CartPole(), lambda rng: {"mass": jax.random.uniform(rng)})
