"""`match_env`: equal references pass, faults are found, and each trap of comparing is avoided."""

import re
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import slow_but
from match_mutants import IDS, MUTANTS, put, reference

import envrax_classic
from envrax import Box, EnvConfig, EnvState, JaxEnv
from envrax.testing import Case, match_env
from envrax.testing.__main__ import main
from envrax.testing.match.numbers import columns, is_continuous
from envrax.testing.match.samples import difference

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
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated or truncated, {"TimeLimit.truncated": truncated}


def inject(simulator: Simulator, state: Any) -> None:
    assert not state.done
    simulator.state[:] = state.position, state.velocity


def small_match(env: Any, simulator: Any, *args: Any, seed: int = 0, **options: Any) -> Any:
    return match_env(
        env, simulator, *args, n_steps=200, n_resets=500, rng=jax.random.key(seed), **options
    )


def verdicts(match: Any) -> dict[str, str]:
    return {check.name: check.verdict for check in match.checks}


def differ(match: Any) -> set[str]:
    return {name for name, verdict in verdicts(match).items() if verdict == "differs"}


def test_an_equal_simulator_passes_every_trap() -> None:
    """
    Its clock, ended states, a key that is split and not used, arrays of its own, unclipped actions.

    Ended states and steps after the end would raise. The last step before our limit is among the
    cases, where only our side truncates.
    """
    match = small_match(Slide(), Simulator(), inject)
    assert match.ok is True, str(match)
    assert match.precision == "float64"
    assert verdicts(match) == {
        "spaces": "skipped",
        "one step": "equal",
        "open loop": "equal",
        "limit": "equal",
        "starts": "alike",
        "ends": "equal",
    }
    assert "left out" not in str(match)


@pytest.mark.slow
def test_one_key_gives_one_result() -> None:
    assert str(same()) == str(same())


def test_a_fault_is_told_with_its_first_case_and_what_all_share() -> None:
    match = small_match(Slide(), SoftWall(), inject)
    assert match.ok is False
    assert differ(match) == {"one step", "open loop"}
    (check,) = [check for check in match.checks if check.name == "one step"]
    assert check.case is not None
    assert check.case.field == "obs[1]"
    assert check.case.ours == 0 > check.case.theirs
    assert check.shared.startswith("the new obs[0] is -0.5, its minimum; so in 0.0%")
    simulator = SoftWall()
    simulator.reset()
    inject(simulator, check.case.state)
    assert simulator.step(check.case.action)[0][1] == check.case.theirs


@pytest.mark.slow
def test_a_wrong_limit_is_a_difference_of_the_clock_alone() -> None:
    match = small_match(Slide(), ShortLimit(), inject)
    assert "limit" in differ(match) <= {"limit", "open loop"}
    assert "ours at step 60, the reference's at step 53" in str(match)


@pytest.mark.slow
def test_without_states_it_is_only_not_refuted() -> None:
    match = small_match(Slide(), OldProtocol())
    assert match.ok is None
    assert "not refuted" in str(match)
    assert verdicts(match)["one step"] == verdicts(match)["limit"] == "skipped"
    assert verdicts(match)["starts"] == verdicts(match)["ends"] == "alike"


@pytest.mark.slow
def test_a_reference_that_can_only_be_read() -> None:
    def extract(simulator: Any) -> Any:
        position, velocity = simulator.state
        _, state = Slide().reset(jax.random.key(0))
        return state.replace(position=position, velocity=velocity)

    assert small_match(Slide(), SoftWall(), extract=extract).ok is False


@pytest.mark.slow
def test_random_steps_are_left_out() -> None:
    match = small_match(Slide(SlideConfig(noise=0.1)), Simulator(), inject)
    (check,) = [check for check in match.checks if check.name == "one step"]
    assert check.verdict in ("equal", "skipped"), str(check)  # deep in the wall noise has no effect
    assert "random ones left out" in check.text or "depends on the PRNG key" in check.text
    assert verdicts(match)["open loop"] in ("equal", "skipped"), str(match)


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


def test_a_map_of_flags_that_are_floats_is_not_moved() -> None:
    assert not is_continuous(np.array([0.0, 1.0]))
    assert not is_continuous(np.array([0, 1]))
    assert is_continuous(np.array([0.0, 0.5]))


class Ruler(Slide):
    """It goes to the right by tenths, and reaches the goal by rounded sums."""

    def reset(self, rng: jax.Array) -> Any:
        _, state = super().reset(rng)
        state = state.replace(position=jnp.round(10 * state.position) / 10)
        return self.observe(state), state

    def step(self, state: Any, action: Any) -> Any:
        new = state.replace(position=state.position + 0.1, step=state.step + 1)
        terminated = new.position >= 1.1
        truncated = new.step >= self.config.max_steps
        new = new.replace(done=terminated | truncated)
        info = {"terminated": terminated, "truncated": truncated}
        return self.observe(new), new, jnp.float32(0), new.done, info


class RoundedRuler(Simulator):
    def step(self, action: Any) -> Any:
        self.clock += 1
        self.state[0] = (10 * self.state[0] + 1) / 10
        return self.state, 0.0, self.state[0] >= 1.1, self.clock >= LIMIT, {}

    def reset(self, seed: int | None = None) -> Any:
        super().reset(seed)
        self.state[0] = np.round(10 * self.state[0]) / 10
        return self.state, {}


@pytest.mark.slow
def test_a_flag_at_a_rounding_edge_is_no_difference() -> None:
    with np.errstate(all="ignore"):
        sums = np.cumsum(np.full(40, 0.1))
    assert np.any((sums >= 1.1) != (np.round(sums, 9) >= 1.1)), "the trap is there"
    match = small_match(Ruler(), RoundedRuler(), inject)
    assert not differ(match) & {"one step", "open loop", "ends"}, str(match)


def test_a_long_array_is_printed_as_its_type() -> None:
    state = {"board": np.zeros((30, 30)), "key": np.zeros(2, np.uint32), "x": np.float64(0.25)}
    case = Case(state, np.arange(3), "obs[7]", 1.0, 2.0)
    expected = "obs[7] is 1, not 2, after board=float64[30, 30], x=0.25, action=[0, 1, 2]"
    assert str(case) == expected


QUICK = "gravity 9.800001", "a wall that does not stop"
SAMPLED = {*QUICK, *[*MUTANTS][::5]}


@pytest.mark.parametrize(
    "name",
    [
        *slow_but(*QUICK, values=[x for x in MUTANTS if x in SAMPLED]),
        *(pytest.param(x, marks=pytest.mark.exhaustive) for x in MUTANTS if x not in SAMPLED),
    ],
)
def test_mutants_are_found(name: str) -> None:
    env, check = MUTANTS[name]
    match = match_env(env, reference(env), put)
    assert match.ok is False
    assert check in differ(match), str(match)


@pytest.mark.slow
@pytest.mark.parametrize("name", IDS)
def test_the_classic_suite_is_gymnasiums(name: str) -> None:
    env = getattr(envrax_classic, name)()
    match = match_env(env, reference(env), put)
    assert match.ok is True, str(match)
    assert match.precision == "float64"
    assert match_env(env, reference(env), n_steps=300).ok is None


@pytest.mark.slow
def test_no_false_alarm_in_thirty_runs() -> None:
    alarms = [
        seed for seed in range(30) if not small_match(Slide(), Simulator(), inject, seed=seed).ok
    ]
    assert alarms == []


def test_samples_of_one_distribution_are_never_told_apart() -> None:
    random = np.random.default_rng(0)
    names = ["uniform", "normal", "coin", "constant"]

    def sample(width: float = 1.0) -> np.ndarray:
        n = 3000
        uniform = random.uniform(-width, width, n)
        return np.stack([uniform, random.normal(size=n), random.random(n) < 0.5, np.ones(n)], 1)

    assert not any(difference(names, sample(), sample(), random)[0] for _ in range(30))
    assert difference(names, sample(1.05), sample(), random)[0].startswith("uniform")
    turned = sample()
    turned[:, 1] = turned[:, 0] * 3**0.5
    assert difference(names, turned, sample(), random)[0]


def test_numbers_have_the_names_of_their_leaves() -> None:
    tree = {"a": np.arange(6).reshape(2, 3), "b": {"c": np.array([0.5, 1.5])}}
    found = columns(tree)
    assert [*found] == ["a[0]", "a[1]", "a[2]", "b.c"]
    np.testing.assert_array_equal(found["a[1]"], [1, 4])


class Pool(Simulator):
    num_envs = 3


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="one slot; got 3"):
        match_env(Slide(), Pool(), n_steps=1, n_resets=1)
    with pytest.raises(TypeError, match="expected a traceable JaxEnv"):
        match_env(Simulator(), Slide())  # type: ignore[arg-type]


def same() -> Any:
    return small_match(Slide(), Simulator(), inject)


def different() -> Any:
    return small_match(Slide(), SoftWall(), inject)


def wrong() -> Any:
    return True


@pytest.mark.slow
def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    module = "testing.test_match"
    assert main(["match", f"{module}:different"]) == 1
    assert "first: obs[1] is 0" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        main(["match", f"{module}:wrong"])
    assert caught.value.code == 2
    assert "expected a function that returns a Match; got True" in capsys.readouterr().err


@pytest.mark.slow
def test_command_line_succeeds() -> None:
    assert main(["match", "testing.test_match:same"]) == 0


def test_command_line_refuses_what_is_not_found(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["match", "no_such_module:compare"])
    assert caught.value.code == 2
    assert "No module named" in capsys.readouterr().err
