"""
Small worlds, each as a port in JAX and as a simulator in NumPy, for tests of `match_env`.

A `World` is functions over `xp`, which is NumPy or `jax.numpy`, of a dict of numbers, uniform draws
`u` and normal draws `n`. The simulator computes in float64 with draws of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from dataclasses import field as entry
from types import SimpleNamespace
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax import Box, Discrete, EnvConfig, EnvState, JaxEnv, MultiDiscrete
from envrax import Dict as DictSpace
from envrax import Tuple as TupleSpace

DRAWS = 4


@dataclass(frozen=True)
class World:
    """Rules of an environment."""

    begin: Callable[..., dict[str, Any]]  # (xp, u, n) -> state
    advance: Callable[..., Any]  # (xp, state, action, u, n) -> state, reward, terminated
    observe: Callable[..., Any]  # (xp, state) -> observation
    limit: int = 50
    actions: Any = entry(default_factory=lambda: Discrete(3))
    observations: Any = None
    mask: Callable[..., Any] | None = None  # (xp, state) -> mask
    dtype: Any = np.float32  # of an observation that is a list
    tells_mask: bool = True


@chex.dataclass
class WorldState(EnvState):
    inner: dict[str, jax.Array]


class Port(JaxEnv[Any, Any, WorldState, EnvConfig]):
    """A world in JAX."""

    def __init__(self, world: World) -> None:
        super().__init__(EnvConfig(max_steps=world.limit))
        self.world = world

    @property
    def observation_space(self) -> Any:
        if self.world.observations is not None:
            return self.world.observations
        obs = self.world.observe(np, self.world.begin(np, np.zeros(DRAWS), np.zeros(DRAWS)))
        return Box(-np.inf, np.inf, (len(obs),), self.world.dtype)

    @property
    def action_space(self) -> Any:
        return self.world.actions

    def reset(self, rng: jax.Array) -> Any:
        rng, u, n = self._draws(rng)
        inner = jax.tree.map(_in_jax, self.world.begin(jnp, u, n))
        state = WorldState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False), inner=inner)
        return self.observe(state), state

    def observe(self, state: Any) -> Any:
        return _observed(jnp, self.world, state.inner)

    def action_mask(self, state: Any) -> Any:
        return self.world.mask(jnp, state.inner) if self.world.mask else None

    def step(self, state: Any, action: Any) -> Any:
        rng, u, n = self._draws(state.rng)
        new, reward, terminated = self.world.advance(jnp, state.inner, action, u, n)
        inner = jax.tree.map(lambda x, old: jnp.asarray(x).astype(old.dtype), new, state.inner)
        step = state.step + 1
        terminated = jnp.asarray(terminated, bool)
        truncated = step >= self.config.max_steps
        done = terminated | truncated
        state = state.replace(rng=rng, step=step, done=done, inner=inner)
        reward = jnp.asarray(reward).astype(jnp.float32)
        info = {"terminated": terminated, "truncated": truncated}
        return self.observe(state), state, reward, done, info

    def _draws(self, rng: jax.Array) -> Any:
        rng, first, second = jax.random.split(rng, 3)
        return rng, jax.random.uniform(first, (DRAWS,)), jax.random.normal(second, (DRAWS,))


class Simulator:
    """A world in NumPy, with a clock of its own, which refuses illegal actions."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = np.random.default_rng(0)
        self.spec = SimpleNamespace(id="Simulator", max_episode_steps=None)

    def reset(self, seed: int | None = None) -> Any:
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.inner = self.world.begin(np, *self._draws())
        self.clock = 0
        return self._observed(), self._info()

    def step(self, action: Any) -> Any:
        mask = self.world.mask(np, self.inner) if self.world.mask is not None else None
        if mask is not None and not mask[action]:
            raise ValueError(f"illegal move {action}")
        new, reward, terminated = self.world.advance(np, self.inner, action, *self._draws())
        self.inner = new
        self.clock += 1
        truncated = self.clock >= self.world.limit
        return self._observed(), reward, bool(terminated), truncated, self._info()

    def _observed(self) -> Any:
        return _observed(np, self.world, self.inner)

    def _info(self) -> Any:
        if self.world.mask is None or not self.world.tells_mask:
            return {}
        return {"action_mask": self.world.mask(np, self.inner)}

    def _draws(self) -> Any:
        return self.random.random(DRAWS), self.random.normal(size=DRAWS)


def inject(simulator: Any, state: Any) -> None:
    simulator.inner = dict(state.inner)


def extract(simulator: Any) -> Any:
    inner = {name: np.asarray(x) for name, x in simulator.inner.items()}
    fields: Any = {"step": 0, "done": False, "inner": inner}
    return WorldState(rng=jax.random.key(0), **fields)


def _observed(xp: Any, world: World, inner: Any) -> Any:
    obs: Any = world.observe(xp, inner)
    return (
        xp.stack([xp.asarray(x).astype(world.dtype) for x in obs]) if isinstance(obs, list) else obs
    )


def _in_jax(x: Any) -> Any:
    x = jnp.asarray(x)
    return x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x


# Rules that several worlds share.


def nothing(xp: Any, u: Any, n: Any) -> dict[str, Any]:
    return {"x": xp.float32(0.0)}


def uniform(xp: Any, u: Any, n: Any) -> dict[str, Any]:
    return {"x": u[0] - 0.5}


def moving(xp: Any, u: Any, n: Any) -> dict[str, Any]:
    return {"x": u[0] - 0.5, "v": 0.0 * u[1]}


def see_x(xp: Any, s: Any) -> Any:
    return [s["x"]]


def see_all(xp: Any, s: Any) -> Any:
    return [s[name] for name in sorted(s)]


# Worlds in which chance decides a step.


def gust(chance: float = 0.1, size: float = 1.0, where: float = -9.0, sides: float = 0.0) -> World:
    """A push at random, perhaps only beyond a place; `sides`: a share of pushes to the left."""

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        blows = (u[0] < chance) & (s["x"] > where)
        push = size * xp.where(u[1] < sides, -1.0, 1.0)
        x = 0.9 * s["x"] + 0.1 * (a - 1) + xp.where(blows, push, 0.0)
        return {"x": x}, x, abs(x) > 4

    return World(uniform, advance, see_x)


def noise(
    scale: float = 0.1, drift: float = 0.0, heavy: float = 0.0, together: float = 0.0
) -> World:
    """Two numbers with normal noise."""

    def begin(xp: Any, u: Any, n: Any) -> Any:
        return {"x": u[0], "y": u[1]}

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        e = n[0] * xp.where(u[0] < heavy, 10.0, 1.0)
        f = together * n[0] + (1 - together**2) ** 0.5 * n[1]
        x = 0.9 * s["x"] + 0.1 * (a - 1) + scale * e + drift
        y = 0.8 * s["y"] + 0.1 * f
        return {"x": x, "y": y}, -abs(x), x > 3

    return World(begin, advance, see_all)


def pair(
    share: float = 0.0,
    so: Callable[..., Any] = lambda x, v: x,
    start: float = 0.0,
    kept: float = 0.0,
) -> World:
    """Two numbers drawn anew in each step; in a share of steps, or starts, `y` is `so(x, v)`."""

    def begin(xp: Any, u: Any, n: Any) -> Any:
        return {"x": u[0], "y": xp.where(u[2] < start, u[0], u[1])}

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        x = xp.where(u[3] < kept, s["x"], u[0])
        return {"x": x, "y": xp.where(u[2] < share, so(x, u[1]), u[1])}, 0.1 * a, u[3] > 0.97

    return World(begin, advance, see_all)


def slips(chance: float = 0.1, hole_reward: float = -1.0, size: int = 5) -> World:
    """A grid on which a move slips to a side."""

    def begin(xp: Any, u: Any, n: Any) -> Any:
        return {"x": xp.floor(u[0] * size).astype(int), "y": xp.floor(u[1] * size).astype(int)}

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        turn = xp.where(u[0] < chance, 1, 0) - xp.where(u[0] > 1 - chance, 1, 0)
        way = (a + turn) % 4
        x = xp.clip(s["x"] + xp.where(way == 0, 1, 0) - xp.where(way == 2, 1, 0), 0, size - 1)
        y = xp.clip(s["y"] + xp.where(way == 1, 1, 0) - xp.where(way == 3, 1, 0), 0, size - 1)
        hole = (x == 2) & (y == 2)
        goal = (x == size - 1) & (y == size - 1)
        return {"x": x, "y": y}, 1.0 * goal + hole_reward * hole, hole | goal

    return World(begin, advance, see_all, actions=Discrete(4), dtype=np.int32)


def queue(rate: float = 0.3, most: int = 9, served: float = 0.7) -> World:
    """Customers come and are served at random; both may happen."""

    def begin(xp: Any, u: Any, n: Any) -> Any:
        return {"n": xp.floor(u[0] * 4).astype(int)}

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        come = (u[0] < rate).astype(int) + (u[1] < rate).astype(int)
        go = ((u[2] < served) & (a > 0)).astype(int)
        number = xp.clip(s["n"] + come - go, 0, most)
        return {"n": number}, -1.0 * number - 0.5 * (a > 0), number == most

    return World(begin, advance, see_all, dtype=np.int32)


def board(chance: float = 0.1, bit: int = 5) -> World:
    """A board of bits, uint32[2], which is no key."""

    def begin(xp: Any, u: Any, n: Any) -> Any:
        half = xp.floor(u[:2] * 65536).astype(xp.uint32)
        return {"board": half}

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        one = xp.asarray(1, xp.uint32)
        flips = xp.where(u[:2] < chance, one << xp.asarray(bit, xp.uint32), 0).astype(xp.uint32)
        new = s["board"] ^ flips ^ xp.stack([one << xp.asarray(a, xp.uint32), 0 * one])
        return {"board": new}, (new[0] >> xp.asarray(bit, xp.uint32)) & one, False

    def observe(xp: Any, s: Any) -> Any:
        bits = s["board"][:, None] >> xp.arange(16).astype(xp.uint32)[None]
        return (bits & xp.asarray(1, xp.uint32)).astype(xp.float32)

    return World(begin, advance, observe, observations=Box(0, 1, (2, 16)))


def lottery(end: float = 0.02, prize: float = 0.1) -> World:
    """An episode that ends at random; a prize at the end at random."""

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        ends = u[0] < end
        return {"x": 0.99 * s["x"]}, 1.0 * (ends & (u[1] < prize)), ends

    return World(uniform, advance, see_x)


# Worlds with hidden numbers.


def glide(decay: float = 0.9, push: float = 0.1, start: float = 0.0, sign: float = 1.0) -> World:
    """Only the place is seen, and not the velocity."""

    def begin(xp: Any, u: Any, n: Any) -> Any:
        return {"x": u[0] - 0.5, "v": start * (u[1] - 0.5)}

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        x = s["x"] + 0.1 * sign * s["v"]
        return {"x": x, "v": decay * s["v"] + push * (a - 1)}, -abs(x), abs(x) > 2

    return World(begin, advance, see_x)


def sticky(chance: float = 0.25, first: int = 1) -> World:
    """The last action, which is hidden, is taken again at random."""

    def begin(xp: Any, u: Any, n: Any) -> Any:
        return {"x": u[0] - 0.5, "last": xp.asarray(first)}

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        taken = xp.where(u[0] < chance, s["last"], a)
        x = s["x"] + 0.05 * (taken - 1)
        return {"x": x, "last": taken}, x, abs(x) > 1

    return World(begin, advance, see_x)


def regimes(stay: float = 0.95, gap: float = 0.2, share: float = 0.5) -> World:
    """A hidden regime, which switches at random, decides the drift."""

    def begin(xp: Any, u: Any, n: Any) -> Any:
        return {"x": u[0] - 0.5, "up": (u[1] < share).astype(int)}

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        up = xp.where(u[0] < stay, s["up"], 1 - s["up"])
        x = 0.9 * s["x"] + gap * (s["up"] - 0.5) + 0.05 * n[0]
        return {"x": x, "up": up}, x, False

    return World(begin, advance, see_x)


def delayed(steps: int = 3) -> World:
    """A reward some steps after its action, kept in a hidden buffer."""

    def begin(xp: Any, u: Any, n: Any) -> Any:
        return {"x": u[0], "buffer": xp.zeros(4) + 0.0 * u[1]}

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        buffer = xp.concatenate([s["buffer"][1:], xp.zeros(1)])
        gain = xp.where(xp.arange(4) == steps - 1, 0.1 * a, 0.0)
        return {"x": 0.9 * s["x"], "buffer": buffer + gain}, s["buffer"][0], False

    return World(begin, advance, see_x)


def deck(draw_back: bool = False) -> World:
    """Cards are drawn from a hidden deck, and not put back."""

    def begin(xp: Any, u: Any, n: Any) -> Any:
        return {
            "left": xp.asarray([2, 2, 2, 2]) + xp.floor(u * 0).astype(int),
            "card": xp.asarray(0),
        }

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        total = s["left"].sum()
        sums = xp.cumsum(s["left"])
        card = xp.argmax(sums > u[0] * total)
        left = s["left"] - (0 if draw_back else 1) * (xp.arange(4) == card)
        return {"left": left, "card": card}, 1.0 * (card == a), left.sum() <= 0

    return World(begin, advance, lambda xp, s: [s["card"]], limit=20, dtype=np.int32)


# Worlds with clocks, masks, and spaces of other kinds.


def countdown(steps: int = 20) -> World:
    """It ends when a countdown, which is hidden, is down."""

    def begin(xp: Any, u: Any, n: Any) -> Any:
        return {"x": u[0], "left": xp.asarray(steps)}

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        left = s["left"] - 1
        return {"x": 0.9 * s["x"] + 0.1 * a, "left": left}, 1.0, left <= 0

    return World(begin, advance, see_x, limit=1000)


def timed(until: float = 2.0, tick: float = 0.1) -> World:
    """A clock of floats, at whose end it terminates."""

    def begin(xp: Any, u: Any, n: Any) -> Any:
        return {"x": u[0], "t": 0.0 * u[1]}

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        t = s["t"] + tick
        return {"x": 0.9 * s["x"] + 0.1 * a, "t": t}, 1.0, t >= until - 0.05

    return World(begin, advance, see_all, limit=1000)


def nim(heap: int = 21, most: int = 3, clever: float = 0.0) -> World:
    """Take 1 to 3 of a heap, which the opponent does too, at random; who takes the last wins."""

    def begin(xp: Any, u: Any, n: Any) -> Any:
        return {"heap": xp.asarray(heap) - xp.floor(u[0] * 4).astype(int)}

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        mine = s["heap"] - (a + 1)
        taken = 1 + xp.floor(u[0] * xp.minimum(mine, most)).astype(int)
        best = xp.where(mine % 4 > 0, mine % 4, taken)
        taken = xp.where(u[1] < clever, xp.minimum(best, most), taken)
        left = xp.maximum(mine - taken, 0)
        won = mine <= 0
        return {"heap": left}, 1.0 * won - 1.0 * (~won & (left <= 0)), left <= 0

    def mask(xp: Any, s: Any) -> Any:
        return xp.arange(3) < s["heap"]

    return World(begin, advance, see_all, mask=mask, dtype=np.int32)


def levers(wear: float = 0.2) -> World:
    """A lever that was pulled may not be pulled again, until it recovers at random."""

    def begin(xp: Any, u: Any, n: Any) -> Any:
        return {"ready": u[:3] < 2.0}

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        ready = (s["ready"] & (xp.arange(3) != a)) | (u[:3] < wear)
        ready = ready | (xp.arange(3) == (a + 1) % 3)
        return {"ready": ready}, 0.1 * a, False

    return World(
        begin,
        advance,
        lambda xp, s: s["ready"].astype(xp.float32),
        observations=Box(0, 1, (3,)),
        mask=lambda xp, s: s["ready"],
    )


def nested(chance: float = 0.2) -> World:
    """Observations and actions of several parts."""

    def begin(xp: Any, u: Any, n: Any) -> Any:
        return {"x": u[:2], "k": xp.floor(u[2] * 3).astype(int)}

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        k = xp.where(u[0] < chance, (s["k"] + a["turn"]) % 3, s["k"])
        x = 0.9 * s["x"] + 0.1 * a["move"][1] + 0.1 * a["move"][0]
        return {"x": x, "k": k}, x.sum(), False

    def observe(xp: Any, s: Any) -> Any:
        return {
            "place": s["x"].astype(xp.float32),
            "kind": (s["k"].astype(xp.int32), xp.float32(0)),
        }

    actions = DictSpace(turn=Discrete(3), move=TupleSpace((Discrete(2), Box(-1.0, 1.0, (2,)))))
    kind = TupleSpace((Discrete(3), Box(0.0, 0.0, ())))
    observations = DictSpace(place=Box(-9.0, 9.0, (2,)), kind=kind)
    return World(begin, advance, observe, actions=actions, observations=observations)


def record(fade: float = 0.9) -> World:
    """The smallest distance so far, at first infinite, and a part that is always 0."""

    def begin(xp: Any, u: Any, n: Any) -> Any:
        return {"x": u[0] - 0.5, "best": xp.asarray(xp.inf), "never": xp.asarray(xp.inf)}

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        x = fade * s["x"] + 0.1 * (a - 1) + 0.05 * n[0]
        best = xp.minimum(s["best"], xp.where(a == 2, abs(x), xp.inf))
        return {"x": x, "best": best, "never": s["never"]}, 0.0 * x, False

    def observe(xp: Any, s: Any) -> Any:
        best = xp.asarray(s["best"]).astype(xp.float32).reshape(1)
        return {"best": best, "none": xp.zeros(1, xp.float32)}

    spaces = {"best": Box(0.0, np.inf, (1,)), "none": Box(0.0, 0.0, (1,))}
    return World(begin, advance, observe, observations=DictSpace(spaces))


def doubling(by: float = 2e12) -> World:
    """Each step depends on digits that rounding decides."""

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        x = (by * (0.3 + s["x"])) % 1
        return {"x": x}, x, False

    return World(uniform, advance, see_x)


def picture(chance: float = 0.1) -> World:
    """A spot in a picture of 20 x 20."""

    def begin(xp: Any, u: Any, n: Any) -> Any:
        return {"x": xp.floor(u[0] * 20).astype(int), "y": xp.floor(u[1] * 20).astype(int)}

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        x = (s["x"] + a[0] - 1 + (u[0] < chance)) % 20
        y = (s["y"] + a[1] - 1) % 20
        return {"x": x, "y": y}, 1.0 * (x == y), False

    def observe(xp: Any, s: Any) -> Any:
        lit = (xp.arange(20)[:, None] == s["x"]) & (xp.arange(20)[None] == s["y"])
        return (255 * lit).astype(xp.uint8)

    space = Box(0, 255, (20, 20), np.uint8)
    return World(begin, advance, observe, actions=MultiDiscrete((3, 3)), observations=space)


def goals() -> World:
    """A reward of two numbers."""

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        x = 0.9 * s["x"] + 0.1 * (a - 1) + 0.1 * n[0]
        return {"x": x}, xp.stack([x, xp.asarray(-abs(x))]), False

    return World(uniform, advance, see_x)


def orbit(rate: float = 3.7) -> World:
    """A map in chaos, half of which is hidden."""

    def begin(xp: Any, u: Any, n: Any) -> Any:
        return {"x": 0.1 + 0.8 * u[0], "y": 0.1 + 0.8 * u[1]}

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        x = rate * s["x"] * (1 - s["x"])
        y = 3.6 * s["y"] * (1 - s["y"])
        return {"x": 0.9 * x + 0.1 * s["y"], "y": y}, x, False

    return World(begin, advance, see_x)


def ruler(goal: float = 1.1) -> World:
    """Steps of a tenth, in sums whose rounding decides the end."""

    def begin(xp: Any, u: Any, n: Any) -> Any:
        return {"x": xp.round(2 * (u[0] - 0.5), 1)}

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        x = s["x"] + 0.1 * (a - 1)
        return {"x": x}, 0.0 * x, x >= goal

    return World(begin, advance, see_x)


def spring(stiff: float = 1.0, wall: float = -0.4, goal: float = 0.45) -> World:
    """No chance but in the start: a mass, a wall, a goal."""

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        v = s["v"] + 0.1 * (a[0] - stiff * s["x"])
        x = s["x"] + 0.1 * v
        hits = x < wall
        x = xp.where(hits, wall, x)
        return {"x": x, "v": xp.where(hits, 0.0, v)}, -(a[0] ** 2), x > goal

    return World(moving, advance, see_all, actions=Box(-1.0, 1.0, (1,)))


def half(scale: float = 0.1) -> World:
    """Observations of float16."""
    world = noise(scale)
    return World(world.begin, world.advance, see_all, dtype=np.float16)


RIGHT: dict[str, Callable[[], World]] = {
    "gust": gust,
    "rare gust": lambda: gust(0.002),
    "gust in a region": lambda: gust(0.1, where=0.3),
    "rare gust in a region": lambda: gust(0.005, where=0.4),
    "gust to both sides": lambda: gust(0.2, sides=0.5),
    "noise": noise,
    "heavy noise": lambda: noise(heavy=0.05),
    "noise together": lambda: noise(together=0.5),
    "pair": pair,
    "pair that is equal at times": lambda: pair(0.2),
    "slips": slips,
    "queue": queue,
    "board of bits": board,
    "lottery": lottery,
    "sticky": sticky,
    "regimes": regimes,
    "deck": deck,
    "nim": nim,
    "nim, half clever": lambda: nim(clever=0.5),
    "levers": levers,
    "nested": nested,
    "picture": picture,
    "goals": goals,
    "half": half,
    "glide": glide,
    "glide from a push": lambda: glide(start=1.0),
    "delayed": delayed,
    "countdown": countdown,
    "timed": timed,
    "orbit": orbit,
    "ruler": ruler,
    "spring": spring,
    "record": record,
}

# What is right, what the port does instead.
NAMED: dict[str, tuple[World, World]] = {
    "a slip of .3 for .1": (slips(0.1), slips(0.3)),
    "a chance of .002 that is missing": (gust(0.002), gust(0.0)),
    "a chance that the reference lacks": (gust(0.0), gust(0.005)),
    "a chance everywhere": (gust(0.1, where=0.3), gust(0.1)),
    "a hidden velocity that never changes": (glide(), glide(decay=1.0, push=0.0)),
    "a hidden velocity of the wrong sign": (glide(), glide(push=-0.1)),
    "a bitboard with another bit": (board(), board(bit=6)),
}


def after(world: World, change: Callable[..., Any], **fields: Any) -> World:
    """A world whose steps are changed by a function of what they give."""

    def advance(xp: Any, s: Any, a: Any, u: Any, n: Any) -> Any:
        given = SimpleNamespace(xp=xp, s=s, a=a, u=u, n=n)
        return change(given, *world.advance(xp, s, a, u, n))

    return replace(world, advance=advance, **fields)


def _crowded(chance: float) -> World:
    """A long queue loses a customer at random."""

    def change(given: Any, new: Any, reward: Any, ends: Any) -> Any:
        leaves = (given.u[3] < chance) & (given.s["n"] > 5)
        return {"n": new["n"] - 1 * leaves}, reward, ends

    return after(queue(rate=0.45), change)


def _tied() -> World:
    """The velocity of a start goes with its place."""
    return replace(glide(), begin=lambda xp, u, n: {"x": u[0] - 0.5, "v": u[0] - 0.5})


def _pays(world: World, how: Callable[..., Any]) -> World:
    return after(world, lambda given, new, reward, ends: (new, how(given, new, reward), ends))


NIM = nim()
TOLD = World(  # every action is legal, which the reference says
    uniform, gust(0.0).advance, see_x, mask=lambda xp, s: xp.arange(3) < 3 + 0 * s["x"]
)

# Invented after `match_env` was written: kind, fault, what is right, what the port does instead.
INVENTED: list[tuple[str, str, World, World]] = [
    ("random step", "noise of .11 for .1", noise(0.1), noise(0.11)),
    ("random step", "noise that is not together", noise(together=0.5), noise()),
    ("random step", "no heavy tails", noise(heavy=0.05), noise()),
    ("random step", "a spot that jumps in .14 for .1", picture(0.1), picture(0.14)),
    ("dependence", "equal in 2 % of steps", pair(), pair(0.02)),
    ("dependence", "equal in 3 % of starts", pair(), pair(start=0.03)),
    ("dependence", "mirrored in 2 % of steps", pair(), pair(0.02, lambda x, v: 1 - x)),
    ("dependence", "close in 60 % of steps", pair(), pair(0.6, lambda x, v: (x + v / 2) % 1)),
    ("dependence", "moved together in 3 % of steps", pair(), pair(0.03, lambda x, v: x + 0.1)),
    ("dependence", "kept from the step before in 2 %", pair(), pair(kept=0.02)),
    ("chance in a region", "beyond .4 for .3", gust(0.1, where=0.3), gust(0.1, where=0.4)),
    ("chance in a region", ".02 that is missing", gust(0.02, where=0.4), gust(0.0)),
    ("chance in a region", "no one leaves a long queue", _crowded(0.1), _crowded(0.0)),
    (
        "hidden state",
        "an action that is not kept",
        sticky(),
        after(sticky(), lambda g, new, r, e: ({**new, "last": g.s["last"]}, r, e)),
    ),
    ("hidden state", "a regime that stays in .9 for .95", regimes(0.95), regimes(0.9)),
    ("hidden state", "a reward a step late", delayed(3), delayed(4)),
    ("hidden state", "cards that are put back", deck(), deck(draw_back=True)),
    ("hidden starts", "another first action", sticky(0.5), sticky(0.5, first=2)),
    ("hidden starts", "a countdown from 21 for 20", countdown(20), countdown(21)),
    ("hidden starts", "velocities that go with places", glide(start=1.0), _tied()),
    ("ends", "a goal at .4501 for .45", spring(), spring(goal=0.4501)),
    ("ends", "an end in .03 for .02", lottery(0.02), lottery(0.03)),
    ("ends", "a clock of 2.1 for 2", timed(2.0), timed(2.1)),
    ("masks", "one more is legal", NIM, replace(NIM, mask=lambda xp, s: xp.arange(3) <= s["heap"])),
    ("masks", "recovery in .25 for .2", levers(0.2), levers(0.25)),
    (
        "masks",
        "a mask by place",
        TOLD,
        replace(TOLD, mask=lambda xp, s: xp.arange(3) < 3 - (s["x"] > 0.4)),
    ),
    ("rewards", "a prize in .2 for .1", lottery(prize=0.1, end=0.2), lottery(prize=0.2, end=0.2)),
    ("rewards", "the second number's sign", goals(), _pays(goals(), lambda g, new, r: abs(r))),
    ("rewards", "noise in a reward", gust(), _pays(gust(), lambda g, new, r: r + 0.01 * g.n[3])),
]
