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
from envrax import Box, DomainRandomization, MultiVecEnv, TimeLimit, VecEnv, with_config
from envrax.autoreset import Compact, Select
from envrax.env import carries_over
from envrax.testing import CountingEnv, report_env
from envrax_classic import CartPole, CartPoleConfig, Maze

F32 = jnp.float32
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
    rng, key = jax.random.split(jax.random.key(0))
    obs, state = DomainRandomization(VectorEnv(), draw_gravity).reset(jax.random.key(0))
    assert_trees_equal(state.fields, draw_gravity(key))
    config = VectorConfig(gravity=draw_gravity(key)["gravity"])
    assert_trees_equal((obs, state.env_state), VectorEnv(config).reset(rng))


@pytest.mark.parametrize(
    ("autoreset", "redraw"),
    [
        (Compact(), False),
        pytest.param(Compact(), True, marks=pytest.mark.slow),
        pytest.param(Select(), False, marks=pytest.mark.slow),
        (Select(), True),
    ],
)
def test_slots_are_environments_of_their_own(autoreset: Any, redraw: bool) -> None:
    """Across auto-reset, each slot does what one env of its drawn limit does."""
    env = DomainRandomization(CountingEnv(), draw_limit, redraw)
    batch = VecEnv(env, 5, autoreset=autoreset)
    _, state = batch.reset(jax.random.key(1))
    assert len(set(state.fields["max_steps"].tolist())) > 1
    seen: list[Any] = []
    for _ in range(30):
        limit, at = state.fields["max_steps"], state.step
        _, state, _, done, _ = batch.step(state, jnp.zeros(5, jnp.int32))
        np.testing.assert_array_equal(done, at + 1 == limit)
        kept = state.fields["max_steps"] == limit
        assert bool(jnp.all(kept if not redraw else kept | done))
        seen.append(np.asarray(limit))
    changes = np.ptp(np.stack(seen), axis=0)
    assert (changes > 0).all() if redraw else (changes == 0).all()


def test_auto_reset_is_a_reset_where_fields_are_redrawn() -> None:
    env = DomainRandomization(CountingEnv(), draw_limit)
    assert not carries_over(env)
    assert carries_over(DomainRandomization(CountingEnv(), draw_limit, False))
    _, state = env.reset(jax.random.key(0))
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
    _, state = env.reset(jax.random.key(0))
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
    _, state, (_, _, reward, _, _) = play(DomainRandomization(env, draw_gravity), jax.random.key(0))
    np.testing.assert_allclose(reward, jnp.full(12, 5 * state.fields["gravity"]), rtol=1e-6)
    assert env.pull + env.push == 2.5


def test_wrappers_follow() -> None:
    """One that reads the config when it is built refuses what it needs to know."""
    stack = envrax.RecordEpisodeStatistics(TimeLimit(VectorEnv(), max_steps=3))
    _, _, (_, state, _, done, _) = play(DomainRandomization(stack, draw_gravity), jax.random.key(0))
    assert done[2] and not done[:2].any()
    assert with_config(TimeLimit(CountingEnv(), max_steps=3), max_steps=2).max_steps == 3
    with pytest.raises(TypeError, match="`max_steps`"):
        DomainRandomization(TimeLimit(CountingEnv()), draw_limit)
    with pytest.raises(TypeError, match="max_steps is drawn"):
        TimeLimit(DomainRandomization(CountingEnv(), draw_limit))
    pixels = envrax.AtariPreprocessing(PixelEnv(), noop_max=3, screen_size=6)
    changed = with_config(pixels, max_steps=9)
    assert changed.config.max_steps == 9 and repr(changed) == repr(
        envrax.AtariPreprocessing(PixelEnv(VectorConfig(max_steps=9)), noop_max=3, screen_size=6)
    )


@pytest.mark.slow
def test_around_a_compiled_one_and_inside_of_others() -> None:
    inner = envrax.JitWrapper(VectorEnv(), pre_warm=False)
    expected = play(DomainRandomization(VectorEnv(), draw_gravity), jax.random.key(0))
    assert_trees_equal(play(DomainRandomization(inner, draw_gravity), jax.random.key(0)), expected)
    outer = envrax.JitWrapper(DomainRandomization(VectorEnv(), draw_gravity), pre_warm=False)
    assert_trees_equal(play(outer, jax.random.key(0)), expected)


@pytest.mark.slow
def test_a_fleet_of_two() -> None:
    one = VecEnv(DomainRandomization(VectorEnv(), draw_gravity), 2)
    fleet = MultiVecEnv([one, VecEnv(DomainRandomization(CountingEnv(), draw_limit), 3)])
    _, states = fleet.reset(jax.random.key(0))
    _, states, *_ = fleet.step(states, [jnp.zeros(2, jnp.int32), jnp.zeros(3, jnp.int32)])
    assert_trees_equal(
        states[0].fields, one.reset(jax.random.split(jax.random.key(0), 2)[0])[1].fields
    )


def fleet_actions(fleet: MultiVecEnv) -> Any:
    return [jnp.zeros(n, jnp.int32) for n in fleet.slots_per_env]


@pytest.mark.slow
def test_what_sample_closes_over_may_be_traced() -> None:
    def total(scale: jax.Array) -> jax.Array:
        env = DomainRandomization(VectorEnv(), lambda _: {"gravity": scale * 0.5})
        _, states = VecEnv(env, 2).reset(jax.random.key(0))
        return jnp.sum(VecEnv(env, 2).step(states, jnp.zeros(2, jnp.int32))[2])

    def by_hand(gravity: float) -> Any:
        batch = VecEnv(VectorEnv(VectorConfig(gravity=gravity)), 2)
        keys = jax.vmap(lambda k: jax.random.split(k)[0])(jax.random.split(jax.random.key(0), 2))
        _, states = jax.vmap(batch.env.reset)(keys)
        return jnp.sum(batch.step(states, jnp.zeros(2, jnp.int32))[2])

    scales = jnp.asarray([0.5, 1.0, 2.0], F32)
    got = jax.jit(jax.vmap(total))(scales)
    np.testing.assert_allclose(got, [by_hand(0.5 * x) for x in (0.5, 1.0, 2.0)], rtol=1e-5)
    slope = jax.grad(total)(F32(1.0))
    np.testing.assert_allclose(slope, 2 * total(F32(1.0)), rtol=1e-4)  # quadratic in gravity


def test_no_tracer_is_left_behind() -> None:
    env = DomainRandomization(VectorEnv(), draw_gravity, redraw=False)
    with jax_flag("jax_check_tracer_leaks", True):
        batch = VecEnv(env, 2)
        _, state = batch.reset(jax.random.key(0))
        batch.step(state, jnp.zeros(2, jnp.int32))
        jax.jit(
            lambda x: DomainRandomization(VectorEnv(), lambda _: {"gravity": x}).reset(
                jax.random.key(0)
            )
        )(F32(1.0))
    assert env.env.config.gravity == 0.5


@pytest.mark.slow
@pytest.mark.parametrize("redraw", [True, False])
def test_it_keeps_the_contract(redraw: bool) -> None:
    assert not report_env(DomainRandomization(VectorEnv(), draw_gravity, redraw)).findings


def test_it_can_be_copied() -> None:
    env = DomainRandomization(VectorEnv(), draw_gravity, redraw=False)
    for again in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert_trees_equal(again.reset(jax.random.key(0)), env.reset(jax.random.key(0)))
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
    _, state = env.reset(jax.random.key(0))
    assert (env.render(state) == 2).all()
    assert env.action_mask(state).tolist() == [True, False, False]


def test_the_config_of_the_wrapper_has_no_value_for_what_is_drawn() -> None:
    env = DomainRandomization(CartPole(), draw_pole)
    assert env.config.gravity == 9.8 and env.env.config.force == 10.0
    assert repr(env.config.force) == "<force is drawn>"


class Sized(VectorEnv):
    """A space that depends on the config, and is kept by `__init__`."""

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._space = Box(-self.config.gravity, self.config.gravity, (3,))

    @property
    def observation_space(self) -> Box:
        return self._space


class Asked(Sized):
    """The same, made when it is asked for."""

    def __init__(self, config: Any = None) -> None:
        VectorEnv.__init__(self, config)

    @property
    def observation_space(self) -> Box:
        return Box(-self.config.gravity, self.config.gravity, (3,))


class Branching(VectorEnv):
    def step(self, state: Any, action: jax.Array) -> tuple[Any, ...]:
        if self.config.gravity > 0:
            return super().step(state, action)
        raise ValueError("no gravity")


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


@pytest.mark.parametrize(
    ("env", "sample", "message"),
    [
        (CartPole(), always(half_lenght=1.0), "got half_lenght. Did you mean half_length?"),
        (CartPole(), always(force="strong"), "expected `sample` to draw numbers; got 'strong' for"),
        (CartPole(), always(force=None), "got None for 'force'"),
        (CartPole(), always(max_steps=2.5), "`max_steps` to be of kind integer, .* float32"),
        (CartPole(), always(force=True), r"`force` to be of kind float, .* got bool\[\]"),
        (CartPole(), always(force=jnp.ones(2)), r"`force` to be of kind float, .* float32\[2\]"),
        (CoinEnv(), always(reset_kind=1), "`reset_kind` to be of kind static value, .* 'plain'"),
        (Goal(), always(goal=jnp.ones(2)), "expected `goal` structured as "),
        (Goal(), always(gains=jnp.ones(3)), r"`gains` to be of kind float of shape \(2,\)"),
        (Maze(), always(size=5, step_cost=0.1), "with `size`; got an environment that needs a"),
        (Sized(), always(gravity=0.5), "with `gravity`; got an environment that needs a static"),
        (Asked(), always(gravity=0.5), "with `gravity`; got an environment that needs a static"),
        (Branching(), always(gravity=0.5), "with `gravity`; got an environment that needs a"),
        (More(), always(gravity=0.5), "takes a config alone; got More.*noise"),
        (CartPole(), lambda rng: [1.0], r"expected sample to return a dict .* got \[1.0\]"),
        (DomainRandomization(VectorEnv(), draw_gravity), draw_gravity, "does not draw; got gravi"),
    ],
)
def test_what_is_refused(env: Any, sample: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        DomainRandomization(env, sample)


def test_what_fits() -> None:
    env = DomainRandomization(
        cast(Any, Goal()), always(goal=(1, 2.0), gains=jnp.ones(2), weight=2.5, max_steps=4)
    )
    configured: Any = with_config(env.env, **env.reset(jax.random.key(0))[1].fields)
    found = {k: jax.tree.leaves(x) for k, x in vars(configured.config).items() if k != "gravity"}
    types = {k: [(x.dtype.name, x.weak_type) for x in leaves] for k, leaves in found.items()}
    assert types["goal"] == [("float32", False)] * 2
    assert types["weight"] == [("float32", False)] and types["max_steps"] == [("int32", False)]
    assert types["gains"] == [("float16", False)]


def test_an_error_of_the_environment_is_its_own() -> None:
    class Broken(VectorEnv):
        def step(self, state: Any, action: jax.Array) -> tuple[Any, ...]:
            raise KeyError("of its own")

    with pytest.raises(KeyError, match="of its own"):
        DomainRandomization(Broken(), draw_gravity)
    with pytest.raises(RuntimeError, match="incompatible with JAX"):
        DomainRandomization(envrax.RecordVideo(PixelEnv()), draw_gravity)


@pytest.mark.slow
def test_a_step_of_the_batch_is_compiled_once() -> None:
    batch = VecEnv(DomainRandomization(CountingEnv(), draw_limit), 3)
    _, state = batch.reset(jax.random.key(0))
    step = jax.jit(partial(batch.step))
    for _ in range(9):
        _, state, *_ = step(state, jnp.zeros(3, jnp.int32))
    assert step._cache_size() == 1
