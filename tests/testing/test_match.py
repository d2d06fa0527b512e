"""`match_env`: equal references pass, faults are found, and each trap of comparing is avoided."""

import math
import re
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import chex
import jax
import jax.numpy as jnp
import match_worlds as worlds
import numpy as np
import pytest
from match_mutants import IDS, MUTANTS, put, reference
from match_worlds import INVENTED, NAMED, RIGHT, Port

from envrax import Box, EnvConfig, EnvState, JaxEnv, classic
from envrax.testing import Case, CountingEnv, match_env
from envrax.testing.__main__ import main
from envrax.testing.match.numbers import columns, named_as_key
from envrax.testing.match.spaces import check_spaces
from envrax.testing.match.statistics import Evidence, compare, log_sign_flips, one_sided

LIMIT = 60
GOAL = 0.8
WALL = -0.5


@chex.dataclass
class SlideState(EnvState):
    position: jax.Array
    velocity: jax.Array


@chex.dataclass
class SlideConfig(EnvConfig):
    max_steps: int = LIMIT
    noise: float = 0.0


class Slide(JaxEnv[Box, Box, SlideState, SlideConfig]):
    """A mass with a wall to the left and a goal to the right; each step splits its key."""

    @property
    def observation_space(self) -> Box:
        return Box(-10.0, 10.0, (2,))

    @property
    def action_space(self) -> Box:
        return Box(-1.0, 1.0, (1,))

    def reset(self, rng: jax.Array) -> Any:
        rng, key = jax.random.split(rng)
        position = jax.random.uniform(key, (), jnp.float32, -0.2, 0.2)
        state = SlideState(
            rng=rng,
            step=jnp.int32(0),
            done=jnp.bool_(False),
            position=position,
            velocity=jnp.float32(0),
        )
        return self.observe(state), state

    def observe(self, state: Any) -> jax.Array:
        return jnp.stack([state.position, state.velocity])

    def step(self, state: Any, action: Any) -> Any:
        rng, key = jax.random.split(state.rng)
        push = jnp.clip(action[0], -1, 1).astype(state.velocity.dtype)
        noise = jax.random.normal(key, dtype=push.dtype) * self.config.noise
        velocity = state.velocity + 0.1 * push - 0.02 * state.position + noise
        position = jnp.maximum(state.position + 0.1 * velocity, WALL)
        velocity = jnp.where(position <= WALL, jnp.maximum(velocity, 0), velocity)
        step = state.step + 1
        terminated = position >= GOAL
        truncated = step >= self.config.max_steps
        done = terminated | truncated
        state = state.replace(rng=rng, step=step, done=done, position=position, velocity=velocity)
        reward = (-jnp.square(push)).astype(jnp.float32)
        info = {"terminated": terminated, "truncated": truncated}
        return self.observe(state), state, reward, done, info


class Simulator:
    """The same in NumPy. It returns its own array, which it changes in place, and has a clock."""

    limit = LIMIT
    wall = True

    def __init__(self) -> None:
        self.state = np.zeros(2)
        self.random = np.random.default_rng(0)

    def reset(self, seed: int | None = None) -> Any:
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.state[:] = self.random.uniform(-0.2, 0.2), 0
        self.clock = 0
        self.ended = False
        return self.state, {}

    def advance(self, action: Any) -> float:
        force = action[0]  # not clipped, and it costs as it is
        self.state[1] += 0.1 * force - 0.02 * self.state[0]
        self.state[0] = max(self.state[0] + 0.1 * self.state[1], WALL)
        if self.wall and self.state[0] <= WALL:
            self.state[1] = max(self.state[1], 0)
        return -(force**2)

    def step(self, action: Any) -> Any:
        assert not self.ended, "stepped after the end"
        reward = self.advance(action)
        self.clock += 1
        terminated = self.state[0] >= GOAL
        self.ended = terminated or self.clock >= self.limit
        return self.state, reward, terminated, self.clock >= self.limit, {}


class SoftWall(Simulator):
    wall = False


class ShortLimit(Simulator):
    limit = LIMIT - 7


class OldProtocol(Simulator):
    """`reset` gives the observation alone, and takes no seed; `step` gives four values."""

    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()[0]

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward, terminated or truncated, {"TimeLimit.truncated": truncated}


def inject(simulator: Simulator, state: Any) -> None:
    assert not state.done
    simulator.state[:] = state.position, state.velocity


def small_match(env: Any, simulator: Any, *args: Any, seed: int = 0, **options: Any) -> Any:
    sizes = {"n_steps": 4000, "n_resets": 400, **options}
    return match_env(env, simulator, *args, rng=jax.random.key(seed), **sizes)


def small_match_of(right: worlds.World, port: worlds.World, seed: int = 0, **options: Any) -> Any:
    return small_match(Port(port), worlds.Simulator(right), worlds.inject, seed=seed, **options)


@cache
def itself(name: str) -> Any:
    """A world against itself."""
    world = RIGHT[name]()
    return small_match_of(world, world)


def verdicts(match: Any) -> dict[str, str]:
    return {check.name: check.verdict for check in match.checks}


def sampled(names: Any, *sample: str) -> list[Any]:
    """Parameters of long tests, and those that only the whole family needs."""
    marks = {True: pytest.mark.slow, False: pytest.mark.exhaustive}
    return [pytest.param(name, marks=marks[name in sample]) for name in names]


def differ(match: Any) -> set[str]:
    return {name for name, verdict in verdicts(match).items() if verdict == "differs"}


def test_an_equal_simulator_passes_every_trap() -> None:
    """
    Its clock, ended states, a key that is split and not used, arrays of its own, unclipped actions.

    Ended states and steps after the end would raise.
    """
    match = same()
    assert match.ok is True, str(match)
    assert match.precision == "float64"
    assert verdicts(match) == {
        "spaces": "skipped",
        "limit": "equal",
        "one step": "equal",
        "windows": "equal",
        "long windows": "equal",
        "starts": "alike",
        "episodes": "alike",
        "ends": "equal",
    }
    assert re.search(r"not compared: \d+ of \d+ visited states, at the limit", str(match))


@pytest.mark.slow  # the first, which every sample has
def test_without_states_it_is_only_not_refuted() -> None:
    match = small_match(Slide(), OldProtocol(), n_steps=500, n_resets=100)
    assert match.ok is None
    assert "not refuted" in str(match)
    assert verdicts(match)["one step"] == verdicts(match)["limit"] == "skipped"
    assert verdicts(match)["starts"] == verdicts(match)["episodes"] == "alike"


@pytest.mark.slow
def test_one_key_gives_one_result() -> None:
    gust = worlds.gust()
    assert str(itself("gust")) == str(small_match_of(gust, gust))


def test_a_fault_is_told_with_its_first_case_and_what_all_share() -> None:
    match = different()
    assert match.ok is False
    assert "one step" in differ(match) <= {"one step", "episodes"}
    (check,) = [check for check in match.checks if check.name == "one step"]
    assert check.case is not None
    assert check.case.field == "obs[1]"
    assert check.case.draws == 1
    assert check.case.ours == 0 > check.case.theirs
    assert check.shared.startswith("the new obs[0] is -0.5, its minimum; so in 0.0%")
    simulator = SoftWall()
    simulator.reset()
    inject(simulator, check.case.state)
    assert simulator.step(check.case.action)[0][1] == check.case.theirs


@pytest.mark.slow
def test_a_wrong_limit_is_a_difference_of_the_clock_alone() -> None:
    match = small_match(Slide(), ShortLimit(), inject, n_steps=500, n_resets=100)
    assert differ(match) == {"limit"}
    assert "ours at step 60, the reference's at step 53" in str(match)


@pytest.mark.slow
def test_a_random_port_is_the_same_and_its_power_is_stated() -> None:
    match = itself("gust")
    assert match.ok is True, str(match)
    assert verdicts(match)["one step"] == "alike"
    assert re.search(r"a chance that changes, where share x change is 0\.0\d+", str(match))
    assert " would be found, with 99 %: " in str(match)


@pytest.mark.slow
def test_where_every_step_is_random_the_report_says_so() -> None:
    match = itself("noise")
    assert match.ok is True, str(match)
    assert verdicts(match)["one step"] == verdicts(match)["windows"] == "alike"
    assert "a difference without chance" not in str(match)
    assert re.search(r"a chance that changes, where share x change is 0\.\d+", str(match))


@pytest.mark.slow
def test_where_rounding_decides_every_step_nothing_is_known() -> None:
    match = small_match_of(worlds.doubling(), worlds.doubling())
    assert match.ok is None, str(match)
    assert verdicts(match)["one step"] == "open"
    assert "not refuted; what is open could not be compared" in str(match)


@pytest.mark.slow
def test_another_chance_is_a_difference_with_the_means_of_both_sides() -> None:
    match = small_match_of(*NAMED["a slip of .3 for .1"])
    assert match.ok is False
    (check,) = [check for check in match.checks if check.name == "one step"]
    assert check.case is not None
    assert check.case.draws > 1
    assert "in the mean of" in str(match)


# Tests above have others.
SAMPLED_RIGHT = ("board of bits", "deck", "delayed", "spring")


@pytest.mark.parametrize("name", sampled(RIGHT, *SAMPLED_RIGHT))
def test_right_ports_are_the_same(name: str) -> None:
    match = itself(name)
    # Where sums of tenths decide the ends, nothing can be said of some episodes.
    assert match.ok is True or (match.ok is None and name == "ruler"), str(match)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(1, 10))
@pytest.mark.parametrize("name", RIGHT)
def test_there_is_no_false_alarm_in_ten_seeds(name: str, seed: int) -> None:
    world = RIGHT[name]()
    assert small_match_of(world, world, seed).ok is not False


@pytest.mark.parametrize("name", sampled(NAMED, "a chance everywhere"))
def test_wrong_chances_and_hidden_numbers_are_found(name: str) -> None:
    right, port = NAMED[name]
    match = match_env(Port(port), worlds.Simulator(right), worlds.inject)
    assert match.ok is False, str(match)


FAULTS = {fault: (kind, right, port) for kind, fault, right, port in INVENTED}


@pytest.mark.parametrize("fault", sampled(FAULTS, "noise in a reward", "equal in 2 % of steps"))
def test_faults_invented_later_are_found(fault: str) -> None:
    kind, right, port = FAULTS[fault]
    match = match_env(Port(port), worlds.Simulator(right), worlds.inject)
    assert match.ok is False, f"{kind}: {fault}: {match}"


@pytest.mark.slow
def test_a_reference_that_can_be_read_is_compared_with_its_hidden_numbers() -> None:
    right = worlds.glide()
    for port, expected in ((right, True), (worlds.glide(decay=0.5), False)):
        simulator = worlds.Simulator(right)
        match = small_match(Port(port), simulator, extract=worlds.extract)
        assert match.ok is expected, str(match)
        assert (verdicts(match)["read states"] == "differs") is not expected


@pytest.mark.exhaustive
def test_one_number_of_a_large_first_observation_is_compared() -> None:
    """Many others vary more."""

    def large(chance: float) -> worlds.World:
        def begin(xp: Any, u: Any, n: Any) -> Any:
            wave = 10 * xp.sin(50 * xp.arange(200) * u[0])
            return {"v": xp.where(xp.arange(200) == 150, 1.0 * (u[1] < chance), wave)}

        def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
            return {"v": 0.9 * s["v"]}, 0.0 * s["v"][0], False

        space = Box(-10.0, 10.0, (200,))
        see = lambda xp, s: s["v"].astype(xp.float32)  # noqa: E731
        return worlds.World(begin, advance, see, observations=space)

    assert verdicts(small_match_of(large(0.3), large(0.3)))["starts"] == "alike"
    assert verdicts(small_match_of(large(0.3), large(0.0)))["starts"] == "differs"


@pytest.mark.slow
def test_hidden_numbers_of_starts_are_read() -> None:
    right = worlds.glide(start=1.0)
    for port, expected in ((right, True), (worlds.glide(start=0.8), False)):
        simulator = worlds.Simulator(right)
        match = small_match(Port(port), simulator, extract=worlds.extract)
        assert match.ok is expected, str(match)
        assert (verdicts(match)["read starts"] == "differs") is not expected


@pytest.mark.slow
def test_a_reference_that_can_be_read_gets_legal_actions() -> None:
    nim = worlds.nim()
    match = small_match(Port(nim), worlds.Simulator(nim), extract=worlds.extract)
    assert match.ok is True, str(match)


@pytest.mark.slow
def test_without_inject_illegal_actions_are_not_compared() -> None:
    nim = replace(worlds.nim(), tells_mask=False)
    match = small_match(Port(nim), worlds.Simulator(nim))
    assert match.ok is None, str(match)
    assert "illegal move" not in str(match)


@pytest.mark.slow
def test_masks_are_compared_where_the_reference_tells_them() -> None:
    right = worlds.levers()
    port = replace(right, mask=lambda xp, s: s["ready"] | True)
    match = small_match_of(right, port)
    assert match.ok is False and "mask" in str(match)


@pytest.mark.slow
def test_observations_in_a_mapping_of_another_order_are_compared_by_key() -> None:
    from collections import OrderedDict

    class Ordered(worlds.Simulator):
        def _observed(self) -> Any:
            obs = super()._observed()
            return OrderedDict((name, obs[name]) for name in reversed(sorted(obs)))

    world = worlds.nested()
    match = small_match(Port(world), Ordered(world), worlds.inject)
    assert match.ok is True, str(match)


@pytest.mark.exhaustive
def test_infinite_numbers_and_bounds_of_0_are_compared_without_a_warning() -> None:
    assert itself("record").ok is True
    assert small_match_of(worlds.record(), worlds.record(fade=0.7)).ok is False


@pytest.mark.parametrize("part", sampled(["turn", "move"], "turn"))
def test_a_part_of_an_action_that_is_not_read_is_a_difference(part: str) -> None:
    """Actions are a `Dict` with a `Tuple`."""
    right = worlds.nested()

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        still = {"turn": 0 * a["turn"], "move": (a["move"][0], 0 * a["move"][1])}
        return right.advance(xp, s, {**a, part: still[part]}, u, n)

    assert itself("nested").ok is True
    assert "one step" in differ(small_match_of(right, replace(right, advance=advance)))


@pytest.mark.slow
def test_masks_that_chance_decides_are_compared() -> None:
    assert itself("levers").ok is True, str(itself("levers"))
    match = small_match_of(worlds.levers(), worlds.levers(wear=0.6))
    assert match.ok is False


@pytest.mark.slow
def test_what_the_reference_raises_is_a_difference() -> None:
    class Breaks(worlds.Simulator):
        def step(self, action: Any) -> Any:
            if self.inner["x"] > 0.3:
                raise ArithmeticError("beyond the wall")
            return super().step(action)

    world = worlds.gust(0.0)
    match = small_match(Port(world), Breaks(world), worlds.inject)
    assert match.ok is False
    assert "the reference raised ArithmeticError: beyond the wall" in str(match)


@pytest.mark.slow
def test_states_that_are_all_done_are_refused() -> None:
    env = CountingEnv()
    _, states = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 4))
    states = states.replace(done=jnp.ones(4, bool))
    with pytest.raises(ValueError, match="`states` of running episodes; got 4"):
        match_env(env, worlds.Simulator(COUNTING), states=states)


COUNTING = worlds.World(
    lambda xp, u, n: {"number": xp.floor(100 * u[0]), "step": 0.0 * u[0]},
    lambda xp, s, a, u, n: ({**s, "step": s["step"] + 1}, a, False),
    worlds.see_all,
    limit=5,
    dtype=np.int32,
)


@pytest.mark.exhaustive
def test_one_reference_that_begins_each_episode_with_one_seed_is_named() -> None:
    class Seeded(worlds.Simulator):
        def reset(self, seed: int | None = None) -> Any:
            return super().reset(3)

    world = worlds.gust(0.0)
    match = small_match(Port(world), Seeded(world))
    assert "does each of its resets begin with one seed?" in str(match)


def test_spaces_differ_by_dtype_and_not_by_the_width_of_choices() -> None:
    world = worlds.gust()

    def against(dtype: Any) -> Any:
        space = SimpleNamespace(shape=(1,), dtype=np.dtype(dtype), low=-np.inf, high=np.inf)
        space = type("Box", (SimpleNamespace,), {})(**vars(space))
        actions = type("Discrete", (SimpleNamespace,), {})(shape=(), dtype=np.dtype("int64"), n=3)
        both = SimpleNamespace(observation_space=space, action_space=actions)
        return check_spaces(Port(world), SimpleNamespace(raw=both)).verdict  # type: ignore[arg-type]

    assert against(np.float32) == against(np.float64) == "equal"
    assert against(np.float16) == against(jnp.bfloat16) == against(np.int32) == "differs"


@pytest.mark.exhaustive
def test_bfloat16_is_compared_and_called_by_its_name() -> None:
    right = replace(worlds.noise(), dtype=jnp.bfloat16)
    assert small_match_of(right, right).ok is True
    match = small_match_of(replace(right, dtype=np.float32), right)
    assert "spaces" in differ(match)
    assert "observations are bfloat16, not float32" in str(match)


@pytest.mark.slow
def test_a_policy_is_played_on_both_sides() -> None:
    """It swings to the goal, but not where forces are mirrored."""

    def swing(policy_state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return jnp.where(obs[1:] >= 0, 1.0, -1.0), policy_state, None

    same = small_match(Slide(), Simulator(), inject, policy=swing)
    assert same.ok is True, str(same)
    (found,) = [check for check in same.checks if check.name == "transfer"]
    means = re.findall(r"return (\S+) \S+ \S+ here, (\S+)", found.text)[0]
    assert float(means[0]) == pytest.approx(float(means[1]), rel=0.05)
    other = small_match(Slide(), Mirrored(), policy=swing)
    assert verdicts(other)["transfer"] == "differs", str(other)


class Mirrored(Simulator):
    def advance(self, action: Any) -> float:
        return super().advance(-action)


@pytest.mark.slow
def test_a_flag_at_a_rounding_edge_is_no_difference() -> None:
    ruler = worlds.ruler()

    def rounded(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        new, reward, _ = ruler.advance(xp, s, a, u, n)
        x = xp.round(10 * new["x"]) / 10
        return {"x": x}, reward, x >= 1.1

    match = small_match_of(replace(ruler, advance=rounded), ruler)
    assert match.ok is not False, str(match)
    assert "where a rounding of the state changes the result" in str(match)


def test_a_long_array_is_printed_as_its_type() -> None:
    state = {"board": np.zeros((30, 30)), "key": np.zeros(2, np.uint32), "x": np.float64(0.25)}
    case = Case(state, np.arange(3), "obs[7]", 1.0, 2.0)
    expected = "obs[7] is 1, not 2, after board=float64[30, 30], x=0.25, action=[0, 1, 2]"
    assert str(case) == expected


@pytest.mark.parametrize("name", sampled(MUTANTS, "a start 5 % too wide"))
def test_mutants_are_found(name: str) -> None:
    env, check = MUTANTS[name]
    match = match_env(env, reference(env), put)
    assert match.ok is False
    assert check in differ(match), str(match)


@pytest.mark.slow
@pytest.mark.parametrize("name", IDS)
def test_the_classic_suite_is_gymnasiums(name: str) -> None:
    env = getattr(classic, name)()
    match = small_match(env, reference(env), put, n_steps=1000, n_resets=200)
    assert match.ok is True, str(match)
    assert match.precision == "float64"


def compared(ours: np.ndarray, theirs: np.ndarray) -> Evidence:
    """Two samples with axes (states, draws, numbers)."""
    names = ["a", "b", "c", "d"][: ours.shape[2]]
    tolerance = np.full((len(ours), ours.shape[2]), 1e-9)
    return compare(ours, theirs, tolerance, names, {}, np.random.default_rng(0))


def test_samples_of_one_distribution_are_never_told_apart() -> None:
    random = np.random.default_rng(0)

    def sample() -> np.ndarray:
        shape = 20, 300
        uniform = random.uniform(-1, 1, shape)
        rare = random.random(shape) < 0.01
        return np.stack([uniform, random.normal(size=shape), rare, np.ones(shape)], 2)

    assert min(compared(sample(), sample()).log_p for _ in range(8)) > np.log(1e-4)


@pytest.mark.parametrize(
    "change",
    [
        lambda x, random: x + 0.1,
        lambda x, random: 1.15 * x,
        lambda x, random: np.where(random.random(x.shape) < 0.01, 9.0, x),
        lambda x, random: np.where(np.arange(20)[:, None, None] % 2, x + 0.3, x - 0.3),
        lambda x, random: np.repeat(x[:, :, :1], 2, axis=2),
    ],
    ids=["shift", "spread", "outliers", "opposite shifts", "together"],
)
def test_samples_of_two_distributions_are_told_apart(change: Any) -> None:
    random = np.random.default_rng(0)
    ours, theirs = random.normal(size=(2, 20, 300, 2))
    assert compared(change(ours, random), theirs).log_p < np.log(1e-6)


def test_the_stated_power_is_that_of_the_tests() -> None:
    """Of samples with a rare result at the stated chance nearly all are told apart."""
    random = np.random.default_rng(0)
    shape = 50, 200, 1
    alpha = 1e-5
    tests = compared(np.zeros(shape), 1.0 * (random.random(shape) < 0.01))
    chance = one_sided(tests, alpha, 50 * 200)
    found = [
        compared(np.zeros(shape), 1.0 * (random.random(shape) < chance)).log_p < np.log(alpha)
        for _ in range(20)
    ]
    assert np.mean(found) >= 0.9


def test_the_stated_power_is_that_of_two_equal_or_opposite_numbers_too() -> None:
    random = np.random.default_rng(0)

    def found(share: float, sign: int) -> float:
        ours, theirs = random.uniform(-1, 1, (2, 50, 200, 2))
        equal = random.random((50, 200)) < share
        ours[..., 1] = np.where(equal, sign * ours[..., 0], ours[..., 1])
        return compared(ours, theirs).log_p

    random_pairs = random.uniform(-1, 1, (2, 50, 200, 2))
    chance = one_sided(compared(*random_pairs), 1e-5, 50 * 200)
    assert chance < 0.008
    assert np.mean([found(chance, (-1) ** i) < np.log(1e-5) for i in range(20)]) >= 0.9


@pytest.mark.parametrize(
    ("share", "other"),
    [
        (0.03, lambda x, y: 0.6 - x),
        (0.4, lambda x, y: np.where(x + y > 1, -y, y)),
        (0.4, lambda x, y: (x + y) / 2),
    ],
    ids=["mirrored", "bounded together", "shared noise"],
)
def test_two_numbers_that_depend_on_each_other_are_found_in_larger_shares(
    share: float, other: Any
) -> None:
    random = np.random.default_rng(0)
    ours, theirs = random.uniform(-1, 1, (2, 50, 200, 2))
    depends = random.random((50, 200)) < share
    ours[..., 1] = np.where(depends, other(ours[..., 0], ours[..., 1]), ours[..., 1])
    assert compared(ours, theirs).log_p < np.log(1e-5)


@pytest.mark.parametrize("k", [65, 80, 101])
def test_shares_are_tested_by_the_binomial_distribution(k: int) -> None:
    n = 101
    exact = math.log(2 * sum(math.comb(n, i) for i in range(k, n + 1)) / 2**n)
    bound = log_sign_flips(np.array([2.0 * k - n]), np.array([1.0 * n]), np.array([True]))[0]
    assert exact <= bound + 1e-9
    assert bound == pytest.approx(exact, abs=0.1)


def test_one_result_among_many_is_told_apart_only_if_it_is_another() -> None:
    random = np.random.default_rng(0)

    def log_p(samples: np.ndarray) -> float:
        tolerance = np.full((len(samples), 2), 1e-9)
        pairs = samples[:, :1], samples[:, 1:2]
        return compare(*pairs, tolerance, ["a", "b"], {}, random, samples[:, 2:]).log_p

    samples = random.normal(size=(2000, 32, 2))
    assert log_p(samples) > np.log(1e-4)
    samples[:, 1, 1] += 0.3
    assert log_p(samples) < np.log(1e-6)
    samples = np.zeros((2000, 32, 2))
    samples[:15, 1, 0] = 1
    assert log_p(samples) < np.log(1e-6)


def test_a_bitboard_is_no_key() -> None:
    bits = np.zeros((3, 2), np.uint32)
    assert named_as_key("rng", bits)
    assert named_as_key("inner.rng_key", bits)
    assert named_as_key("inner.keys", bits)
    assert not named_as_key("inner.board", bits)
    assert not named_as_key("monkey", bits)
    assert not named_as_key("key", bits.astype(int))


def test_numbers_have_the_names_of_their_leaves() -> None:
    tree = {"a": np.arange(6).reshape(2, 3), "b": {"c": np.array([0.5, 1.5])}}
    found = columns(tree)
    assert [*found] == ["a[0]", "a[1]", "a[2]", "b.c"]
    np.testing.assert_array_equal(found["a[1]"], [1, 4])


class Pool(Simulator):
    num_envs = 3


class PoolOfOne(worlds.Simulator):
    """As a pool of EnvPool with one slot: actions and results have an axis of one."""

    num_envs = 1
    action_space = SimpleNamespace(dtype=np.dtype(np.int64))

    def reset(self, seed: int | None = None) -> Any:
        obs, info = super().reset(seed)
        return obs[None], info

    def step(self, action: Any) -> Any:
        assert action.shape == (1,)
        obs, reward, terminated, truncated, _ = super().step(action[0])
        flags = np.array([[terminated], [truncated]])
        return obs[None], np.array([reward]), *flags, {"elapsed_step": np.array([self.clock])}


@pytest.mark.slow
def test_a_pool_of_one_slot_is_compared_by_distributions() -> None:
    for port, expected in ((worlds.gust(), None), (worlds.gust(0.3), False)):
        match = small_match(Port(port), PoolOfOne(worlds.gust()))
        assert match.ok is expected, str(match)


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="one slot; got 3"):
        match_env(Slide(), Pool(), n_steps=1, n_resets=1)
    with pytest.raises(TypeError, match="expected a traceable JaxEnv"):
        match_env(Simulator(), Slide())  # type: ignore[arg-type]


def same() -> Any:
    return small_match(Slide(), Simulator(), inject, n_steps=200, n_resets=50)


def different() -> Any:
    return small_match(Slide(), SoftWall(), inject, n_steps=200, n_resets=50)


def unknown() -> Any:
    return small_match(Slide(), Simulator(), n_steps=500, n_resets=100)


def wrong() -> Any:
    return True


@pytest.mark.slow
def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    module = "testing.test_match"
    assert main(["match", f"{module}:different"]) == 1
    assert "first: obs[1] is 0" in capsys.readouterr().out
    assert main(["match", f"{module}:unknown"]) == 3
    assert main(["match", f"{module}:same"]) == 0
    with pytest.raises(SystemExit) as caught:
        main(["match", f"{module}:wrong"])
    assert caught.value.code == 2
    assert "expected a function that returns a Match; got True" in capsys.readouterr().err


def test_command_line_refuses_what_is_not_found(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["match", "no_such_module:compare"])
    assert caught.value.code == 2
    assert "No module named" in capsys.readouterr().err
