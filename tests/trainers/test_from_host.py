"""`from_host`: simulators inside compiled programs."""

import copy
import gc
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_trees_equal

import envrax
from envrax import Box, Dict, Discrete, MultiDiscrete, Tuple
from envrax.interop import from_gymnasium_vec, from_host
from envrax.interop.host.batch import HostBatch
from envrax.interop.host.seeds import seed_of
from envrax.interop.host.simulator import VectorSimulator
from envrax.testing import CountingEnv, report_batched_env, report_env
from envrax.wrappers import vector

KEY = jax.random.key(0)
N = 4


class Cart:
    """Gymnasium's CartPole."""

    def __init__(self) -> None:
        self.env: Any = gymnasium.make("CartPole-v1")

    def reset(self, seed: int) -> Any:
        return self.env.reset(seed=seed)[0]

    def step(self, action: Any) -> Any:
        return self.env.step(int(action))


class Walk:
    """Counts to its limit, on one array; moves beyond the limit are illegal."""

    obs = None

    def __init__(self) -> None:
        self.where = np.zeros(1, np.float32)
        self.legal = np.ones(3, bool)
        self.fails = False

    def reset(self, seed: int) -> Any:
        self.where[:] = seed % 3
        self.fails = False
        return {"where": self.where}

    def step(self, action: Any) -> Any:
        if self.fails:
            raise ZeroDivisionError("the wheel is off")
        assert self.action_mask()[action]
        self.where += action
        info = {"far": self.where[0] > 3, "note": "unread"}
        return {"where": self.where}, float(action), self.where[0] >= 6, False, info

    def action_mask(self) -> Any:
        self.legal[:] = self.where[0] + np.arange(3) <= 6
        return self.legal

    def render(self) -> Any:
        return np.full((2, 2, 3), int(self.where[0]), np.uint8)


def carts(make: Any = Cart, n: int = N, width: int = 4, actions: Any = None, **options: Any) -> Any:
    seen = Box(-np.inf, np.inf, (width,))
    return from_host(make, n, seen, actions or Discrete(2), **options)


def walks(**options: Any) -> Any:
    infos = {"far": Discrete(2, jnp.int32)}
    return from_host(
        Walk, N, Dict(where=Box(0, 9, (1,))), Discrete(3), infos=infos, final_obs=True, **options
    )


def test_fleets_mix_them() -> None:
    fleet = envrax.MultiVecEnv([walks(), envrax.VecEnv(CountingEnv(), 2)])
    obs, states = fleet.reset(KEY)
    obs, states, *_ = fleet.step(states, [jnp.ones(N, jnp.int32), jnp.zeros(2, jnp.int32)])
    assert obs[0]["where"].shape == (N, 1)


@pytest.mark.parametrize("make", [carts, walks, lambda: vector.NormalizeObservation(carts())])
def test_sound_simulators_pass_the_check(make: Any) -> None:
    report = report_batched_env(make())
    assert report.ok and len(report.kept) > 10
    assert "`jax.jit`" not in str(report)
    with pytest.raises(TypeError, match="Check a batch with `check_batched_env`"):
        report_env(make())


def test_a_faulty_simulator_is_found() -> None:
    env = from_host(Cart, N, Box(-0.1, 0.1, (4,)), Discrete(2))
    findings = report_batched_env(env).findings
    assert [finding.rule for finding in findings] == ["observations_are_in_the_space"]
    with pytest.raises(NotImplementedError, match=r"a method `render\(\)`"):
        env.render_slot(env.reset(KEY)[1])


@pytest.mark.parametrize("threads", [0, 2])
def test_a_rollout_is_a_loop_by_hand(threads: int) -> None:
    """Every observation, before and after an end, from the seeds that the docs give."""
    env = carts(final_obs=True, threads=threads)
    _, steps = envrax.rollout(env, None, envrax.start(env, KEY), 120)
    assert steps.done.sum() > N
    keys = jax.random.split(jax.random.split(KEY)[1], N)
    for i in range(N):
        cart = Cart()
        rng, seed = seed_of(keys[i])
        obs = cart.reset(int(seed))
        for t in range(120):
            np.testing.assert_array_equal(steps.obs[t, i], obs)
            obs, reward, terminated, truncated, _ = cart.step(steps.action[t, i])
            np.testing.assert_array_equal(steps.next_obs[t, i], obs)
            got = [x[t, i] for x in (steps.reward, steps.terminated, steps.truncated)]
            assert got == [reward, terminated, truncated]
            if terminated or truncated:
                rng, seed = seed_of(jax.random.split(rng)[0])
                obs = cart.reset(int(seed))


def test_steps_scans_and_rollouts_are_the_same() -> None:
    env = walks()
    actions = jnp.ones((20, N), jnp.int32).at[:, 1].set(0)

    def step(state: Any, actions: Any) -> Any:
        obs, state, *rest = env.step(state, actions)
        return state, (obs, *rest)

    scanned = jax.jit(lambda state: jax.lax.scan(step, state, actions))(env.reset(KEY)[1])
    state = env.reset(KEY)[1]
    rows: list[Any] = []
    for row in actions:
        state, out = step(state, row)
        rows.append(out)
    assert_trees_equal(scanned[1], jax.tree.map(lambda *x: jnp.stack(x), *rows))
    assert_trees_equal(scanned[0].replace(call=0), state.replace(call=0))
    assert scanned[1][2].sum() > N


def test_masks_infos_and_ends() -> None:
    env = walks()
    _, steps = envrax.rollout(env, None, envrax.start(env, KEY), 60)  # the walk checks its actions
    ended = np.asarray(steps.done)
    assert ended.sum() > N
    where = np.asarray(steps.next_obs["where"])[..., 0]
    np.testing.assert_array_equal(steps.info["far"], where > 3)
    legal = where[..., None] + np.arange(3) <= 6
    np.testing.assert_array_equal(steps.info["final_mask"], legal)
    assert (where[ended] == 6).all() and (np.asarray(steps.obs["where"])[..., 0] < 6).all()
    found = envrax.evaluate(env, None, KEY, 10)
    assert found.complete.all() and found.terminated.all()


def test_wrappers_and_resets_by_mask() -> None:
    env = vector.RecordEpisodeStatistics(walks(autoreset=False))
    obs, state = env.reset(KEY)
    for _ in range(9):
        moves = jnp.where(obs["where"][:, 0] < 6, 1, 0)
        obs, state, _, dones, infos = env.step(state, moves)
        np.testing.assert_array_equal(infos["episode"]["l"] > 0, dones)
        first, state = env.reset_where(dones, obs, state)
        assert_trees_equal(first["where"][~dones], obs["where"][~dones])
        assert (first["where"][dones] < 3).all()
        obs = first
    env = walks()
    obs, state = env.reset(KEY)
    mask = np.arange(N) < 2
    again, _ = env.reset_where(mask, *env.step(state, jnp.ones(N, jnp.int32))[:2], KEY)
    assert_trees_equal(again["where"][mask], obs["where"][mask])


def test_errors_of_a_simulator_arrive() -> None:
    env = walks()
    state = env.reset(KEY)[1]
    env.simulator.all[2].fails = True
    with pytest.raises(ZeroDivisionError, match="the wheel is off"):
        env.step(state, jnp.ones(N, jnp.int32))
    with pytest.raises(RuntimeError, match="cannot go back"):  # two of them have moved on
        env.step(state, jnp.ones(N, jnp.int32))
    end, _ = envrax.rollout(env, None, envrax.start(env, KEY), 3)
    env.simulator.all[1].fails = True
    with pytest.raises(ZeroDivisionError, match="the wheel is off"):
        envrax.rollout(env, None, end, 3)
    state = env.reset(KEY)[1]
    env.simulator.all[1].fails = True
    with pytest.raises(jax.errors.JaxRuntimeError, match="the wheel is off"):
        jax.block_until_ready(jax.jit(env.step)(state, jnp.ones(N, jnp.int32)))
    _, steps = envrax.rollout(env, None, envrax.start(env, KEY), 5)
    fresh = walks()
    _, expected = envrax.rollout(fresh, None, envrax.start(fresh, KEY), 1)
    assert_trees_equal(steps.obs["where"][:1], expected.obs["where"])


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Python's own handler: a process that a shell started in the background ignores the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("wrap", [lambda env: env, vector.RecordEpisodeStatistics])
def test_an_interrupt_arrives_in_the_step_in_which_it_comes(wrap: Any) -> None:
    n_steps = 0

    class Interrupted(Walk):
        def step(self, action: Any) -> Any:
            nonlocal n_steps
            n_steps += 1
            if n_steps == 7:
                signal.raise_signal(signal.SIGINT)
            return super().step(action)

    space = Dict(where=Box(0, 9, (1,)))
    env = wrap(from_host(Interrupted, 1, space, Discrete(3), final_obs=True))
    at = envrax.start(env, KEY)
    for play in (
        lambda: envrax.rollout(env, None, at, 200),
        lambda: envrax.evaluate(env, None, KEY, 50),
    ):
        n_steps = 0
        with pytest.raises(KeyboardInterrupt):
            play()
        assert n_steps == 7


def test_illegal_actions_infos_of_resets_and_closed_batches() -> None:
    class WithInfo(Walk):
        def reset(self, seed: int) -> Any:
            return super().reset(seed), {}

    env = walks()
    _, state = env.reset(jax.random.key(0))
    with pytest.raises(ValueError, match="expected actions"):
        env.step(state, jnp.full(env.n_slots, 99))
    env.close()
    with pytest.raises(RuntimeError, match="after `close`"):
        env.reset(jax.random.key(0))
    with_info = from_host(WithInfo, 2, env.single_observation_space, env.single_action_space)
    with pytest.raises(TypeError, match="without an info"):
        with_info.reset(jax.random.key(0))


PLACES = Dict(a=Box(0, 9, (1,)), b=Tuple([Box(0, 9, (1,)), Discrete(2)]))
ROW = np.zeros(1, np.float32)
OTHER_PARTS: dict[str, tuple[Any, str]] = {
    "a missing key": ({"a": ROW}, r"a dict with keys \['a', 'b'\]; got keys \['a'\]"),
    "an extra key": ({"a": ROW, "b": (ROW, 1), "c": 1}, r"got keys \['a', 'b', 'c'\]"),
    "no dict": (ROW, r"a dict with keys .* got \(.*\) \w+\."),
    "a missing part": ({"a": ROW, "b": (ROW,)}, "a tuple of length 2; got a tuple of length 1"),
    "no tuple": ({"a": ROW, "b": 1}, r"a tuple of length 2; got \(\) int64"),
}


@pytest.mark.parametrize("case", OTHER_PARTS)
def test_observations_of_other_parts_than_the_space(case: str) -> None:
    obs, message = OTHER_PARTS[case]

    class Other(Walk):
        def reset(self, seed: int) -> Any:
            return obs

    with pytest.raises(
        ValueError, match=f"from_host: expected what the simulator gives to be .*{message}"
    ):
        from_host(Other, 2, PLACES, Discrete(3)).reset(KEY)


def test_only_the_newest_state_counts() -> None:
    env = walks()
    obs, state = env.reset(KEY)
    newer = env.step(state, jnp.ones(N, jnp.int32))[1]
    for call in (
        lambda: env.step(state, jnp.ones(N, jnp.int32)),
        lambda: env.reset_where(np.ones(N, bool), obs, state),
        lambda: env.render_slot(state, 1),
    ):
        with pytest.raises(RuntimeError, match="cannot go back"):
            call()
    assert env.render_slot(newer, -1).shape == (2, 2, 3)
    with pytest.raises(IndexError):
        env.render_slot(newer, N)


def test_refusals() -> None:
    env = walks()
    obs, state = env.reset(KEY)
    ones = jnp.ones(N, jnp.int32)
    with pytest.raises(TypeError, match="without `vmap`"):
        jax.vmap(env.step)(*jax.tree.map(lambda x: x[None], (state, ones)))
    floats = carts(actions=Box(-1, 1, (1,)))
    at = floats.reset(KEY)[1]
    with pytest.raises(TypeError, match="without `grad`"):
        jax.grad(lambda x: floats.step(at, x)[2].sum())(jnp.ones((N, 1)))
    with pytest.raises(NotImplementedError, match="without `starts`"):
        env.reset_where(np.ones(N, bool), obs, state, starts=(obs, state))
    with pytest.raises(TypeError, match="that reset or step returned; got int"):
        env.step(3, ones)
    with pytest.raises(ValueError, match="n_envs to be at least 1"):
        carts(n=0)
    with pytest.raises(TypeError, match="builds a simulator"):
        carts(Cart())
    with pytest.raises(ValueError, match="threads to be at least 1; got -1"):
        carts(threads=-1)
    another = walks()
    another.reset(KEY)
    with pytest.raises(RuntimeError, match="cannot go back"):
        another.step(state, ones)
    with pytest.raises(ValueError, match=r"of shape \(5,\) from every simulator; got \(4,\)"):
        carts(width=5).reset(KEY)
    with pytest.raises(ValueError, match="final_obs"):
        carts(infos={"final_obs": Discrete(2)})
    with pytest.raises(ValueError, match=r"a method `action_mask\(\)`"):
        carts(type("Bare", (), {"reset": None}), infos={"action_mask": Discrete(2)})
    lacks = carts(infos={"far": Discrete(2)})
    with pytest.raises(ValueError, match="an info 'far' from every step"):
        lacks.step(lacks.reset(KEY)[1], ones)


@pytest.mark.parametrize("place", ["obs", "reward", "info"])
@pytest.mark.parametrize(("sent", "fits"), [(2**24 + 1, False), (2**25, True), (2**63 - 1, False)])
def test_an_integer_that_a_float_cannot_hold_is_refused(place: str, sent: int, fits: bool) -> None:
    class Whole:
        def reset(self, seed: int) -> Any:
            return np.zeros(1, np.int64)

        def step(self, action: Any) -> Any:
            given: dict[str, int] = {"obs": 0, "reward": 0, "info": 0, place: sent}
            return np.array([given["obs"]]), given["reward"], False, False, given

    env = carts(Whole, width=1, infos={"info": Box(-np.inf, np.inf, ())})
    state = env.reset(KEY)[1]
    if not fits:
        with pytest.raises(ValueError, match=f"numbers that float32 holds; got {sent}"):
            env.step(state, np.ones(N, np.int32))
        return
    obs, _, reward, _, infos = env.step(state, np.ones(N, np.int32))
    assert {"obs": obs[0, 0], "reward": reward[0], "info": infos["info"][0]}[place] == sent


ALL, SOME = np.ones(3, bool), np.arange(3) > 0
PARTS = Dict(k=Discrete(3), c=Box(-1, 1, (1,)), t=Tuple((Discrete(3), MultiDiscrete([2, 3]))))
PADDED = np.array([[True, True, False], [True] * 3])
EVERY = {"k": ALL, "c": None, "t": (ALL, PADDED)}


class Masked:
    """It gives the mask of its class."""

    mask: Any = None

    def reset(self, seed: int) -> Any:
        return np.zeros(1, np.float32)

    def step(self, action: Any) -> Any:
        return np.zeros(1, np.float32), 1.0, False, False

    def action_mask(self) -> Any:
        return self.mask


@pytest.mark.parametrize(
    ("space", "mask", "expected"),
    [
        (PARTS, None, EVERY),
        (PARTS, {"k": None, "c": None, "t": None}, EVERY),
        (PARTS, {"k": SOME, "c": None, "t": None}, {**EVERY, "k": SOME}),
        (
            PARTS,
            {"k": SOME, "c": None, "t": [SOME, None]},
            {"k": SOME, "c": None, "t": (SOME, PADDED)},
        ),
        (Discrete(3), None, ALL),
        (Box(-1, 1, (1,)), None, None),
    ],
)
def test_a_mask_of_none_says_that_all_is_legal(space: Any, mask: Any, expected: Any) -> None:
    env = carts(type("Some", (Masked,), {"mask": mask}), 2, 1, space, final_obs=True)
    env.simulator.all[1].mask = expected  # the others say it in full
    _, state = env.reset(KEY)
    both = jax.tree.map(lambda x: np.stack([x, x]), expected)
    assert_trees_equal(env.action_mask(state), both)
    actions = env.action_space.sample(KEY)
    for step in (env.step, jax.jit(env.step)):
        _, state, *_, infos = step(state, actions)
        assert_trees_equal(env.action_mask(state), both)
        assert_trees_equal(infos.get("final_mask"), both)


@pytest.mark.parametrize(
    ("mask", "wrong"),
    [
        ({"k": ALL, "t": None}, r"action_mask\(\) to be a dict with keys .* None for a part"),
        ({"k": ALL, "c": np.ones(1, bool), "t": None}, r"action_mask\(\)\['c'\] to be None"),
        ({"k": ALL[:2], "c": None, "t": None}, r"\['k'\] to be of shape \(3,\); got \(2,\) bool"),
        ({"k": ALL, "c": None, "t": (ALL,)}, r"\['t'\] to be a tuple of length 2"),
    ],
)
def test_a_mask_of_another_form_is_refused(mask: Any, wrong: str) -> None:
    env = carts(type("Wrong", (Masked,), {"mask": mask}), 2, 1, PARTS)
    with pytest.raises(ValueError, match=f"from_host: expected .*{wrong}"):
        env.reset(KEY)


@pytest.mark.parametrize("threads", [0, 3])
def test_one_buffer_for_all_and_errors_while_others_run(threads: int) -> None:
    """Results are copied at once, and a call ends when each simulator is done."""

    class Slow(Walk):
        def step(self, action: Any) -> Any:
            if self.fails:
                next(iter(()))
            time.sleep(0.05)
            obs, *rest, info = super().step(action)
            return obs, *rest, {**info, "far": self.where.astype(np.int32)[0]}

        def action_mask(self) -> Any:
            return super().action_mask().astype(np.int8)

    space = Dict(where=Box(0, 9, (1,)))
    infos = {"far": Box(0, 9, (), jnp.int32)}
    options: Any = dict(infos=infos, final_obs=True, threads=threads)
    env = from_host(Slow, 3, space, Discrete(3), **options)
    obs, state = env.reset(KEY)
    for _ in range(6):
        actions = jnp.where(obs["where"][:, 0] < 6, 1, 0)
        obs, state, _, _, infos = env.step(state, actions)
        np.testing.assert_array_equal(infos["far"], infos["final_obs"]["where"][:, 0])
    begun = env.reset(KEY)
    env.simulator.all[0].fails = True
    with pytest.raises(StopIteration):
        env.step(begun[1], jnp.ones(3, jnp.int32))
    again = env.reset(KEY)
    time.sleep(0.1)
    assert_trees_equal(again[0], begun[0])
    np.testing.assert_array_equal([x.where[0] for x in env.simulator.all], begun[0]["where"][:, 0])
    legacy = jax.random.PRNGKey(3)
    found, _ = env.reset_where(np.arange(3) > 0, *again, legacy)
    assert_trees_equal(found["where"][1:], env.reset(legacy)[0]["where"][1:])


def test_simulators_step_side_by_side() -> None:
    """Both wait for each other in a step, which one thread could not do."""
    barrier = threading.Barrier(2, timeout=20)

    class Waits(Walk):
        def step(self, action: Any) -> Any:
            barrier.wait()
            return super().step(action)

    env = from_host(Waits, 2, Dict(where=Box(0, 9, (1,))), Discrete(3), threads=2)
    assert not env.step(env.reset(KEY)[1], jnp.ones(2, jnp.int32))[3].any()


def test_what_the_policy_returned_has_a_gradient() -> None:
    env = walks()
    at = envrax.start(env, KEY)

    def loss(weight: jax.Array) -> jax.Array:
        def policy(state: Any, obs: Any, rng: jax.Array) -> Any:
            return jnp.zeros(N, jnp.int32), state, weight * obs["where"][:, 0]

        return envrax.rollout(env, policy, at, 2)[1].extras.sum()

    gradient = jax.grad(loss)(jnp.float32(1))
    np.testing.assert_allclose(gradient, 2 * at.obs["where"].sum())


class Ticks(VectorSimulator):
    """A protocol of its own: one array for all, resets itself, forgets the last observation."""

    who = "from_ticks"
    n = 3
    name = "Ticks"
    observation_space = Box(0, 9, (), jnp.int32)
    action_space = Discrete(2)
    resets_itself = True
    has_last = False

    def begin(self, seeds: Any) -> Any:
        self.now = np.asarray(seeds) % 4
        return self.now

    def step(self, actions: Any, last: bool) -> Any:
        self.now += actions
        ended = self.now > 4
        self.now[ended] = 0
        return self.now, ended.astype(float), ended, ~ended & False, {}, None


def test_another_protocol_is_one_class() -> None:
    """And without its last observations, what needs them is refused by name."""
    env = HostBatch(Ticks())
    obs, state = env.reset(KEY)
    rows = jnp.ones((9, 3), jnp.int32)
    state, ended = jax.jit(
        lambda state: jax.lax.scan(lambda s, row: env.step(s, row)[1:4:2], state, rows)
    )(state)
    np.testing.assert_array_equal(ended, (obs + np.arange(1, 10)[:, None]) % 5 == 0)
    np.testing.assert_array_equal(state.step, (np.asarray(obs) + 9) % 5)
    step, final = jax.jit(env.step), HostBatch(Ticks(), final_obs=True)
    for ask, what in (
        (lambda: final.step(state, rows[0]), "Ticks, which shows only"),
        (lambda: HostBatch(Ticks(), autoreset=False).step(state, rows[0]), "without auto-reset"),
        (lambda: env.reset_where(np.ones(3, bool), obs, state), "begins all at once"),
    ):
        with pytest.raises((TypeError, NotImplementedError), match=what):
            ask()
    _, state, *_ = step(state, rows[0])  # none of these calls lost it
    env.step(state, rows[0])
    _, steps = envrax.rollout(env, None, envrax.start(env, KEY), 2)
    assert steps.next_obs is None and steps.done.shape[0] == 2


class Draws:
    """Random numbers of its own."""

    def reset(self, seed: int) -> Any:
        self.rng = np.random.default_rng(seed)
        return self.rng.random(2).astype(np.float32)

    def step(self, action: Any) -> Any:
        return self.rng.random(2).astype(np.float32), float(action), False, False


@pytest.mark.parametrize("threads", [0, 2])
def test_a_copy_goes_on_apart(threads: int) -> None:
    """With threads, `deepcopy` and `pickle` were errors about a queue."""
    env = from_host(Draws, 2, Box(0.0, 1.0, (2,)), Discrete(2), threads=threads)
    _, state = env.reset(KEY)
    results = []
    for batch in (copy.deepcopy(env), pickle.loads(pickle.dumps(env)), env):
        first = batch.step(state, [0, 1])
        results.append(batch.step(first[1], [1, 0])[0])
        batch.close()
    assert_trees_equal(results[0], results[1])
    assert_trees_equal(results[0], results[2])


def test_workers_are_not_copied() -> None:
    """The half of a copy closed the pipes of the workers when it was deleted."""
    vector_env = gymnasium.vector.AsyncVectorEnv(
        [lambda: gymnasium.make("CartPole-v1")] * 2, context="forkserver"
    )
    env = from_gymnasium_vec(vector_env)
    _, state = env.reset(KEY)
    for make in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="simulators of this process to copy or pickle; got"):
            make(env)
    gc.collect()
    env.step(state, [0, 1])
    env.close()
