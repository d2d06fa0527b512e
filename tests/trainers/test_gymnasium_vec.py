"""`from_gymnasium_vec`: every mode gives what single environments give, reset by hand."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as gym_vector
from helpers import assert_trees_equal
from trainers.host_envs import KEY, MAKE, ByHand, check_returned_arrays_stay, draw, seed_of

from envrax import rollout, start
from envrax.interop.host.gymnasium_vec import from_gymnasium_vec
from envrax.testing import check_batched_env

pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered")
MODES = [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP]

sync = partial(SyncVectorEnv, copy=False)
# A process that has started JAX must not fork.
parallel = partial(AsyncVectorEnv, context="forkserver", copy=False)


def follow(env: Any, make: Callable[[], gymnasium.Env], steps: int) -> np.ndarray:
    """Compare with single environments; how often a slot ended by termination, by truncation."""
    obs, state = env.reset(KEY)
    hand = ByHand(make, env.n_slots, KEY)
    assert_trees_equal(obs, hand.first)
    ends = np.zeros(2, int)
    for actions in draw(env.action_space, steps):
        obs, state, rewards, dones, infos = env.step(state, actions)
        *expected, terminated, truncated, last, result = hand.step(actions)
        ends += terminated.sum(), truncated.sum()
        assert_trees_equal([obs, rewards, dones], expected)
        final = {"final_obs": last} if env._options.final_obs else {}
        assert infos.keys() >= {"terminated", "truncated", *final}
        if env.simulator.has_mask:
            final["final_mask"] = np.array([info["action_mask"] for info in result]) == 1
        kept = {
            name: np.array([info[name] for info in result]).astype(infos[name].dtype)
            for name in infos.keys() - {"terminated", "truncated", *final}
        }
        assert_trees_equal(
            infos, {"terminated": terminated, "truncated": truncated, **final, **kept}
        )
    env.close()
    return ends


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("name", MAKE)
def test_every_mode_gives_what_single_environments_give(name: str, mode: AutoresetMode) -> None:
    env = from_gymnasium_vec(sync([MAKE[name]] * 3, autoreset_mode=mode), final_obs=True)
    ends = follow(env, MAKE[name], 60)
    assert ends[int(name == "time limit")] > 2


@pytest.mark.parametrize(
    ("mode", "shared_memory"), list(zip(MODES, (False, True, True), strict=True))
)
def test_separate_processes_give_the_same(mode: AutoresetMode, shared_memory: bool) -> None:
    vector_env = parallel([MAKE["dict"]] * 2, autoreset_mode=mode, shared_memory=shared_memory)
    assert follow(from_gymnasium_vec(vector_env, final_obs=True), MAKE["dict"], 60)[0] > 2


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_infos_are_those_of_the_step_that_ended_an_episode(mode: AutoresetMode) -> None:
    make = partial(gymnasium.make, "Taxi-v4", max_episode_steps=7)
    vector_env = SyncVectorEnv([make] * 2, autoreset_mode=mode)
    env = from_gymnasium_vec(vector_env, info_keys=("action_mask", "prob"), final_obs=True)
    assert follow(env, make, 30)[1] > 2


class Picky(gymnasium.Env[Any, Any]):
    """It draws masks, and raises an error at an illegal action. `legal` is envrax's mask."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    kinds: Any = gymnasium.spaces.Dict(
        a=gymnasium.spaces.Discrete(3),
        b=gymnasium.spaces.MultiDiscrete([2, 3]),
        c=gymnasium.spaces.Tuple((gymnasium.spaces.MultiBinary(2), observation_space)),
    )

    def __init__(self, part: str = "") -> None:
        self.part = part
        self.action_space = self.kinds[part] if part else self.kinds

    def drawn(self) -> tuple[Any, dict[str, Any]]:
        rows = np.eye(3, dtype=bool)[self.np_random.integers(3, size=3)]
        rows[:2, 0] |= ~rows[:2, :2].any(1)
        rows[1] &= np.array([True, True, False])
        both = self.np_random.integers(3, size=2)  # the legal value, or 2
        bits = np.stack([both != 1, both != 0], -1)
        legal = {"a": rows[0], "b": rows[1:], "c": (bits, None)}
        a, b, c = (x.astype(np.int8) for x in rows)
        mask = {"a": a, "b": (b[:2], c), "c": (both.astype(np.int8), None)}
        self.mask = mask[self.part] if self.part else mask
        self.legal = legal[self.part] if self.part else legal
        return np.zeros(1, np.float32), {"action_mask": self.mask}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.drawn()

    def step(self, action: Any) -> Any:
        given = {self.part: action} if self.part else action
        legal = {self.part: self.legal} if self.part else self.legal
        if "a" in given:
            assert legal["a"][given["a"]]
        if "b" in given:
            assert legal["b"][np.arange(2), given["b"]].all()
        if "c" in given:
            assert legal["c"][0][np.arange(2), given["c"][0]].all()
        obs, info = self.drawn()
        self.last = self.legal
        return obs, 1.0, bool(self.np_random.integers(4) == 0), False, info


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("part", ["", "a", "b", "c"])
def test_masks_among_the_infos_are_those_of_the_batch(part: str, mode: AutoresetMode) -> None:
    vector_env = SyncVectorEnv([partial(Picky, part)] * 3, autoreset_mode=mode)
    env = from_gymnasium_vec(vector_env, info_keys=("action_mask",), final_obs=True)
    envs: Any = vector_env.envs

    def stacked(name: str) -> Any:
        return jax.tree.map(lambda *x: np.stack(x), *(getattr(x, name) for x in envs))

    _, state = env.reset(KEY)
    ends = 0
    for i, rng in enumerate(jax.random.split(KEY, 40)):
        assert_trees_equal(env.action_mask(state), stacked("legal"))
        actions = jax.vmap(env.single_action_space.sample)(
            jax.random.split(rng, 3), env.action_mask(state)
        )
        step = jax.jit(env.step) if i % 5 == 0 else env.step
        _, state, _, dones, infos = step(state, actions)
        assert_trees_equal(infos["final_mask"], stacked("last"))
        assert "action_mask" not in infos
        ends += int(dones.sum())
    assert ends > 10
    rollout(env, None, start(env, KEY), 20)


def test_masks_of_another_form_or_of_no_reset_are_refused() -> None:
    class Joint(Picky):
        def drawn(self) -> Any:
            return np.zeros(1, np.float32), {"action_mask": np.ones((2, 2, 3), np.int8)}

    class Nested(Picky):
        def drawn(self) -> Any:
            obs, info = super().drawn()
            return obs, {**info, "nest": {"x": 1.0}}

    class Twos(Picky):
        def drawn(self) -> Any:
            return np.zeros(1, np.float32), {"action_mask": np.full(3, 2, np.int8)}

    class Late(Picky):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return super().reset(seed=seed)[0], {}

    for make, part, wrong in (
        (
            Joint,
            "b",
            r"'action_mask' to be a mask of Gymnasium's MultiDiscrete.* got \(2, 2, 3\) int8",
        ),
        (Joint, "a", r"'action_mask' to be a mask of Gymnasium's Discrete\(3"),
        (Joint, "", r"'action_mask' to be a dict with keys"),
        (Nested, "a", "infos of numbers, or arrays of one shape; got another 'nest'"),
        (Twos, "a", r"'action_mask' to be a mask of Gymnasium's Discrete\(3"),
        (Late, "a", "every reset and step; got it from slots \\[\\]. Its infos are: none"),
    ):
        names = ("action_mask", "nest") if make is Nested else ("action_mask",)
        env = from_gymnasium_vec(SyncVectorEnv([partial(make, part)]), info_keys=names)
        with pytest.raises(ValueError, match=f"from_gymnasium_vec: .*{wrong}"):
            env.step(env.reset(KEY)[1], env.action_space.sample(KEY))


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_returned_arrays_do_not_change(mode: AutoresetMode) -> None:
    left, written = (
        from_gymnasium_vec(sync([MAKE["CartPole"]] * 2, autoreset_mode=mode), final_obs=True)
        for _ in range(2)
    )
    check_returned_arrays_stay(left, written)


def test_the_same_key_begins_the_same_episodes() -> None:
    env = from_gymnasium_vec(SyncVectorEnv([MAKE["CartPole"]] * 2))
    first, _ = env.reset(KEY)
    again, _ = env.reset(KEY)
    legacy, _ = env.reset(jax.random.key_data(KEY))
    other, _ = env.reset(jax.random.key(8))
    assert_trees_equal(first, again)
    assert_trees_equal(first, legacy)
    assert not np.array_equal(first, other)
    assert seed_of(KEY) != seed_of(jax.random.key(8))


@pytest.mark.parametrize(
    ("make", "mode"), [*((sync, mode) for mode in MODES), (parallel, AutoresetMode.DISABLED)]
)
def test_episodes_begin_in_the_slots_of_a_mask(make: Any, mode: AutoresetMode) -> None:
    """With a key as in a reset; the other slots go on as if nothing had happened."""
    env, twin = (
        from_gymnasium_vec(make([MAKE["time limit"]] * 3, autoreset_mode=mode)) for _ in range(2)
    )
    first, state = env.reset(jax.random.key(9))
    obs, state = env.reset(KEY)
    _, other = twin.reset(KEY)
    actions = [*draw(env.action_space, 6)]
    obs, state, *_ = env.step(state, actions[0])
    _, other, *_ = twin.step(other, actions[0])
    old = state
    begun, state = env.reset_where(np.array([False, True, False]), obs, old, jax.random.key(9))
    assert_trees_equal(begun[1], first[1])
    assert_trees_equal(begun[[0, 2]], obs[[0, 2]])
    with pytest.raises(RuntimeError, match="state of the last call"):
        env.step(old, actions[1])
    begun, state = env.reset_where(np.zeros(3, bool), begun, state)  # changes nothing
    with pytest.raises(ValueError, match="reset_where: expected obs"):
        env.reset_where(np.ones(3, bool), begun[:2], state)
    for action in actions[1:]:
        _, state, rewards, dones, _ = env.step(state, action)
        _, other, expected, ends, _ = twin.step(other, action)
        assert_trees_equal((rewards[[0, 2]], dones[[0, 2]]), (expected[[0, 2]], ends[[0, 2]]))
    env.close()
    twin.close()


def test_wrappers_of_gymnasium_stay_in_force() -> None:
    bare = SyncVectorEnv([MAKE["CartPole"]] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    same = from_gymnasium_vec(gym_vector.RecordEpisodeStatistics(bare))
    scaled = from_gymnasium_vec(
        gym_vector.TransformReward(SyncVectorEnv([MAKE["CartPole"]] * 2), lambda r: 3 * r)
    )
    (_, a), (_, b) = same.reset(KEY), scaled.reset(KEY)
    for actions in draw(same.action_space, 40):
        obs, a, rewards, dones, _ = same.step(a, actions)
        theirs, b, tripled, ended, _ = scaled.step(b, actions)
        assert_trees_equal([obs, 3 * rewards, dones], [theirs, tripled, ended])


def test_a_slot_is_drawn() -> None:
    pytest.importorskip("ale_py")
    make = partial(gymnasium.make, "ALE/Breakout-v5", render_mode="rgb_array")
    env = from_gymnasium_vec(SyncVectorEnv([make] * 2), final_obs=True)
    _, state = env.reset(KEY)
    _, state, *_ = env.step(state, [1, 2])
    expected = env.simulator.vector_env.envs[1].render()
    np.testing.assert_array_equal(env.render_slot(state, -1), expected)
    assert expected.shape == (210, 160, 3)


@pytest.mark.parametrize("final_obs", [False, True])
def test_the_contract_holds(final_obs: bool) -> None:
    vector_env = SyncVectorEnv([MAKE["dict"]] * 2)
    check_batched_env(from_gymnasium_vec(vector_env, final_obs=final_obs), num_steps=30)
