# pyright: reportMissingImports=false
"""The examples' PPO and DQN on any id: trained for some CPU seconds, and evaluated."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import envrax
from benchmarks.tasks import Task
from envrax.multi_agent.agent_slots import agents_as_slots
from envrax.multi_agent.one_agent import OneAgent
from envrax.wrappers import vector

sys.path.append(str(Path(__file__).parents[1] / "examples"))

import dqn
import ppo

EPISODES = 100
MAX_STEPS = 5_000  # after which an episode of an evaluation is cut
IMAGE_STEPS = 1_000  # the same of images, whose steps are slow
POINTS = 40  # of a learning curve
LARGEST = 32  # side of an image that the convolution sees
# The only hyper-parameters that differ from the example's defaults, by the kind of observation.
VECTORS: dict[str, Any] = {}
GRIDS: dict[str, Any] = {"hidden": 128, "entropy_weight": 0.01}
IMAGES: dict[str, Any] = {"entropy_weight": 0.01, "n_envs": 16, "minibatches": 4}
DQN_OPTIONS: dict[str, Any] = {"total_steps": 200_000}
now = time.process_time  # of all threads, so that other work on the machine does not count


class Trained(NamedTuple):
    """The parameters, and what they took."""

    params: Any
    steps: int  # of the environment, over all slots; of the worlds, where agents are slots
    cpu: float  # seconds of all threads
    wall: float
    compiled: float  # CPU seconds before
    curve: list[tuple[int, float]]  # environment steps, and the mean return of episodes then


class Learner:
    """
    An environment and an algorithm, which a subclass names.

    Attributes
    ----------
    env : JaxEnv
        In which the policy is evaluated: an environment, or a world of several agents.
    agents : tuple of str
        Of the world, those that learn.
    hyper : dict
        The hyper-parameters that are not the example's defaults.
    network : str
        Which one, if it is not that of vectors.
    max_steps : int
        After which an episode of an evaluation is cut.
    batch_steps : int
        Environment steps in an update, over all slots; steps of the worlds, where agents are slots.
    first_steps : int
        Those of `init`.
    """

    env: Any
    agents: tuple[str, ...] = ()
    hyper: dict[str, Any]
    network: str = ""
    max_steps: int = MAX_STEPS
    batch_steps: int
    first_steps: int = 0

    def init(self, seed: Any) -> Any:
        """The state of a training."""
        raise NotImplementedError

    def update(self, state: Any, left: Any) -> tuple[Any, Any]:
        """Learn from some steps; `left` is the part of the time that is left. Returns, ends."""
        raise NotImplementedError

    def params(self, state: Any) -> Any:
        raise NotImplementedError

    def act(self, params: Any, obs: Any, rng: Any, mask: Any) -> Any:
        """The action of one agent."""
        raise NotImplementedError

    def policy(self, policy_state: Any, obs: Any, rng: jax.Array, mask: Any) -> Any:
        """
        The policy, or uniform legal actions: both in one program.

        `policy_state` is the parameters, and a bool array: whether actions are uniform.
        """
        params, is_uniform = policy_state
        # `ClipAction` has no bounds; beneath it are those that the policy's actions are clipped to.
        clips = isinstance(self.env, envrax.ClipAction)
        spaces: Any = (self.env.env if clips else self.env).action_space

        def chosen(obs: Any, rng: jax.Array, mask: Any, space: Any, learns: bool) -> Any:
            uniform = space.sample(rng) if mask is None else space.sample(rng, mask)
            action = self.act(params, obs, rng, mask) if learns else uniform
            return jax.tree.map(lambda a, b: jnp.where(is_uniform, a, b), uniform, action)

        if not self.agents:
            action = chosen(obs, rng, mask, spaces, True)
            return action, policy_state, None
        rngs = jax.random.split(rng, len(self.env.agents))
        actions = {
            agent: chosen(
                obs[agent],
                key,
                None if mask is None else mask[agent],
                spaces[agent],
                agent in self.agents,
            )
            for agent, key in zip(self.env.agents, rngs, strict=True)
        }
        return actions, policy_state, None

    def evaluate(self, params: Any, *, uniform: bool) -> np.ndarray:
        """The returns of 100 episodes; in a world, the means over the agents that learn."""
        how: Any = {"policy_state": (params, jnp.bool_(uniform)), "max_steps": self.max_steps}
        rng = jax.random.key(1_000_003)
        returns = envrax.evaluate(self.env, self.policy, rng, EPISODES, **how).returns
        if self.agents:
            returns = np.mean([returns[agent] for agent in self.agents], axis=0)
        return np.asarray(returns, np.float64)


class _PPO(ppo.PPO):
    """The example PPO on a batch that is made already."""

    def __init__(self, options: ppo.Options, env: Any, batch: Any) -> None:
        self.made = env, batch
        super().__init__(options)

    def make(self) -> tuple[Any, Any]:
        return self.made


class PPO(Learner):
    """
    The example PPO.

    Rewards are divided by the running deviation of the discounted return, so that one set of
    hyper-parameters serves rewards of any size. The learning rate falls with the time that is left.
    """

    def __init__(self, task: Task) -> None:
        made: Any = envrax.make(task.id, jit_compile=False, **_options(task))
        if len(task.agents) == 1 and len(made.agents) > 1:
            made = OneAgent(made, task.agents[0], None)
        self.agents = task.agents if made.agents else ()
        space: Any = made.observation_space
        shapes = _shapes(space[task.agents[0]] if self.agents else space)
        is_flat = all(len(shape) <= 1 for shape in shapes)
        self.hyper = IMAGES if task.images else VECTORS if is_flat else GRIDS
        o = ppo.Options(env=task.id, **self.hyper)
        recorded = envrax.RecordEpisodeStatistics(made)
        if self.agents:
            self.env = envrax.FlattenObservation(recorded)
            if isinstance(self.env.action_space[self.agents[0]], envrax.Box):
                self.env = envrax.ClipAction(envrax.RescaleAction(self.env, -1.0, 1.0))
            batch: Any = agents_as_slots(envrax.VecEnv(self.env, o.n_envs), self.agents)
        else:
            if task.images:
                recorded, self.network = image(recorded)
                self.max_steps = IMAGE_STEPS
            else:
                recorded = envrax.FlattenObservation(recorded)  # without the convolution
            self.env = ppo.scaled(recorded)
            batch = envrax.VecEnv(self.env, o.n_envs)
        self.ppo = _PPO(o, self.env, vector.NormalizeReward(batch, gamma=o.gamma))
        adam: Any = optax.inject_hyperparams(optax.adam)(learning_rate=o.learning_rate)
        self.ppo.optimiser = optax.flatten(optax.chain(optax.clip_by_global_norm(0.5), adam))
        self.batch_steps = o.n_envs * o.n_steps

    def init(self, seed: Any) -> Any:
        return self.ppo.init(seed)

    def update(self, state: Any, left: Any) -> tuple[Any, Any]:
        at, opt_state = state
        rate = left * self.ppo.options.learning_rate
        return self.ppo.update((at, optax.tree.set(opt_state, learning_rate=rate)), None)

    def params(self, state: Any) -> Any:
        return state[0].policy_state

    def act(self, params: Any, obs: Any, rng: Any, mask: Any) -> Any:
        return self.ppo.act(params, obs, rng, mask)[0]


class DQN(Learner):
    """The example DQN."""

    def __init__(self, task: Task) -> None:
        self.hyper = DQN_OPTIONS
        self.dqn = dqn.DQN(dqn.Options(env=task.id, **self.hyper))
        self.env, self.batch_steps = self.dqn.env, self.dqn.options.n_envs
        self.first_steps = self.dqn.options.first_steps

    def init(self, seed: Any) -> Any:
        return self.dqn.init(seed)

    def update(self, state: Any, left: Any) -> tuple[Any, Any]:
        return self.dqn.update(state, None)

    def params(self, state: Any) -> Any:
        return state.params

    def act(self, params: Any, obs: Any, rng: Any, mask: Any) -> Any:
        return self.dqn.act(0.0, params, obs, rng)[0]


LEARNERS: dict[str, Callable[[Task], Learner]] = {"PPO": PPO, "DQN": DQN}


def train(learner: Learner, seeds: Sequence[int], seconds: float) -> Iterator[Trained]:
    """
    Train with each seed for so many CPU seconds, of all threads; compilation does not count.

    Every call of the compiled program makes as many updates as fit into a fortieth of the time.
    """

    @partial(jax.jit, donate_argnums=0)
    def several(state: Any, n: jax.Array, left: jax.Array) -> Any:
        def one(_: Any, carry: Any) -> Any:
            state, before = carry
            state, ended = learner.update(state, left)
            return state, jax.tree.map(lambda x, y: x + jnp.asarray(y, x.dtype), before, ended)

        types = jax.eval_shape(learner.update, state, left)[1]
        return jax.lax.fori_loop(0, n, one, (state, jax.tree.map(jnp.zeros_like, types)))

    begin = now()
    init = jax.jit(learner.init)
    state = init(seeds[0])
    program = several.lower(state, jnp.int32(1), jnp.float32(1)).compile()
    compiled = now() - begin
    for seed in seeds:
        yield _trained(learner, program, init(seed), seconds, compiled)


def _trained(
    learner: Learner, program: Any, state: Any, seconds: float, compiled: float
) -> Trained:
    curve: list[tuple[int, float]] = []
    all_ended: Any = 0
    n, steps, used = 1, learner.first_steps, 0.0
    began, begin = time.perf_counter(), now()
    while used < seconds:
        state, (totals, episodes) = program(state, jnp.int32(n), jnp.float32(1 - used / seconds))
        totals, episodes = np.asarray(totals), np.asarray(episodes)
        steps += n * learner.batch_steps
        all_ended = all_ended + episodes
        # Until each slot has ended an episode, the returns are only those of short episodes.
        if np.all(all_ended > 0) and episodes.any():
            curve.append((steps, float(totals.sum() / episodes.sum())))
        before, used = used, now() - begin
        n = max(1, min(4 * n, round(n * seconds / POINTS / (used - before))))
    wall = time.perf_counter() - began
    return Trained(learner.params(state), steps, used, wall, compiled, curve)


def image(env: Any) -> tuple[Any, str]:
    """
    The environment with float32 images, channels last, no side above `LARGEST`, and its network.

    Larger images become the means of squares.
    """
    shape: tuple[int, ...] = env.observation_space.shape
    is_last = shape[0] > shape[-1]
    h, w, c = shape if is_last else (*shape[1:], shape[0])
    n = -(-max(h, w) // LARGEST)
    new = -(-h // n), -(-w // n), c

    def squares(obs: Any) -> jax.Array:
        x = jnp.asarray(obs, jnp.float32)
        x = x if is_last else jnp.moveaxis(x, 0, -1)
        x = jnp.pad(x, [(0, -h % n), (0, -w % n), (0, 0)], "edge")
        return x.reshape(new[0], n, new[1], n, c).mean((1, 3))

    high = float(np.max(getattr(env.observation_space, "high", 1)))
    space = envrax.Box(0.0, high, new, jnp.float32)
    network = "a small convolution" + f" of the image, {n} times smaller" * (n > 1)
    return envrax.TransformObservation(env, squares, observation_space=space), network


def _options(task: Task) -> dict[str, Any]:
    return {"options": task.options} if task.options else {}


def _shapes(space: Any) -> list[tuple[int, ...]]:
    """The shapes of the arrays of a space."""
    children = getattr(space, "spaces", None)
    if children is None:
        return [space.shape]
    each = children.values() if isinstance(children, dict) else children
    return [shape for child in each for shape in _shapes(child)]
