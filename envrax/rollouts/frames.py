"""`FrameBuffer`: steps for replay, with each frame of a stacked observation kept once."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.counts import require_count
from envrax._jax.keys import require_key
from envrax._jax.types import is_traced, leaf_type
from envrax.rollouts.episodes import close, with_slots
from envrax.rollouts.rollout import Transition
from envrax.spaces.base import canonical, describe, is_mapping
from envrax.wrappers.dict_observation import replace_entry

_DATA = ("frames", "steps", "n_seen", "last_frame", "last_step", "n_steps")


@partial(jax.tree_util.register_dataclass, data_fields=_DATA, meta_fields=("n_stack", "key"))
@dataclass(frozen=True, repr=False)
class FrameBuffer:
    """
    A replay buffer that keeps each frame of a `FrameStackObservation` once.

    It is a pytree, made by `init`. `obs` and `next_obs` of the steps that it samples are those of
    the rollout, bit for bit, also where episodes end and begin. A step takes the memory of one
    frame in place of two stacks, and each episode that of one stack more, its first.

    Attributes
    ----------
    frames : jax.Array
        The frames in the order in which they were seen; the axes are ring, slots, and a frame's.
    steps : Transition
        The steps without stacks; the axes are ring, slots, and others.
    n_seen : jax.Array
        For each step, how many frames of its slot were seen by then: uint32, and may overflow.
    last_frame, last_step : jax.Array
        Where in the rings the newest are: for each slot, and for all.
    n_steps : jax.Array
        How many steps are in the ring.
    n_stack : int
        Frames of a stack.
    key : str or None
        The stacked entry of a dict.

    Examples
    --------
    >>> from envrax import FrameStackObservation, VecEnv, rollout, start
    >>> from envrax.testing import CountingEnv
    >>> env = VecEnv(FrameStackObservation(CountingEnv(), n_stack=3), 2)
    >>> at, steps = rollout(env, None, start(env, jax.random.key(0)), 30)
    >>> buffer = FrameBuffer.init(steps, 300)
    >>> at, steps = rollout(env, None, at, 20)
    >>> buffer = jax.jit(FrameBuffer.add, donate_argnums=0)(buffer, steps)
    >>> batch = buffer.sample(jax.random.key(1), 8)
    >>> batch.obs.shape, batch.next_obs.shape, buffer.frames.shape
    ((8, 2, 3), (8, 2, 3), (150, 2, 2))
    """

    frames: jax.Array
    steps: Transition
    n_seen: jax.Array
    last_frame: jax.Array
    last_step: jax.Array
    n_steps: jax.Array
    n_stack: int
    key: str | None

    def __new__(cls, *args: Any, **fields: Any) -> "FrameBuffer":
        if args or "n_frames" in fields:
            raise TypeError(
                "FrameBuffer: expected `FrameBuffer.init(steps, n_frames)`, with steps of a "
                "rollout; got a call of the class itself."
            )
        return super().__new__(cls)

    def __repr__(self) -> str:
        frames = leaf_type(self.frames) if hasattr(self.frames, "dtype") else self.frames
        return f"FrameBuffer(frames={frames}, n_stack={self.n_stack}, key={self.key!r})"

    @classmethod
    def init(cls, steps: Transition, n_frames: int, *, key: str | None = None) -> "FrameBuffer":
        """
        A buffer with the first steps of a rollout.

        Parameters
        ----------
        steps : Transition
            Steps of `rollout`, of a batch or of one environment. What is not to be kept is None:
            `collect=lambda step: step._replace(info=None, extras=None)`. `obs`, `next_obs` and
            `done` are needed.
        n_frames : int
            The frames to keep, over all slots, of which each gets an equal share. The oldest are
            replaced.
        key : str, optional
            The stacked entry of a dict of observations. The other entries are kept twice, as in
            `obs` and in `next_obs`.

        Raises
        ------
        TypeError
            If `steps` is no Transition of one environment, or the observations are no array.
        ValueError
            As for `add`; or if there is no such key.
        """
        steps = with_slots("FrameBuffer", steps)
        stack = _stacks(steps.obs, key)
        _, n_slots, *shape, n_stack = stack.shape
        n_rows = require_count("FrameBuffer: expected n_frames", n_frames) // n_slots

        def ring(x: Any) -> jax.Array:
            return jnp.zeros((n_rows, n_slots, *x.shape[2:]), x.dtype)

        frames = jnp.zeros((n_rows, n_slots, *shape), stack.dtype)
        first = jnp.moveaxis(stack[0], -1, 0)
        buffer = cls(
            frames=frames.at[jnp.arange(n_stack)].set(first, mode="drop"),
            steps=jax.tree.map(ring, _without_stacks(steps, key)),
            n_seen=jnp.zeros((n_rows, n_slots), jnp.uint32),
            last_frame=jnp.full(n_slots, n_stack - 1, jnp.int32),
            last_step=jnp.int32(-1),
            n_steps=jnp.int32(0),
            n_stack=n_stack,
            key=key,
        )
        return buffer.add(steps)

    def add(self, steps: Transition) -> "FrameBuffer":
        """
        The buffer with more steps, of which each row continues the one before.

        The first row may begin anywhere, as after another `start`: it is compared with the newest
        stack, and where it differs, its own is kept.

        Call it within `jit`, where the buffer is changed in place: with `donate_argnums`, or as the
        carry of a scan.

        Raises
        ------
        TypeError
            If a field has other entries, shapes or dtypes than in `init`.
        ValueError
            If there are too few frames for the steps: in a slot, as if each began an episode.
            Outside of `jit`, also if observations are no stacks, oldest first along the last axis,
            or a row does not continue the one before.
        """
        steps = with_slots("FrameBuffer", steps)
        obs, next_obs = (_stacks(x, self.key) for x in (steps.obs, steps.next_obs))
        (n_rows, n_slots, *shape), dtype = self.frames.shape, self.frames.dtype
        stacks = jax.ShapeDtypeStruct((0, n_slots, *shape, self.n_stack), dtype)
        rest = _without_stacks(steps, self.key)
        _require_rows("obs", _rows(stacks), _rows(obs))
        for name, held, given in zip(Transition._fields, self.steps, rest, strict=True):
            _require_rows(name, _rows(held), _rows(given))
        if not is_traced((obs, next_obs, steps.done)):
            _require_rollout(*map(np.asarray, (obs, next_obs, steps.done)))
        n = len(steps.done)
        n_needed = self.n_stack + (self.n_stack + 1) * n
        if n_rows < n_needed:
            raise ValueError(
                f"FrameBuffer: expected at least {n_needed} frames for each slot, to add {n} steps "
                f"at once; got {n_rows}. Raise `n_frames` to {n_slots * n_needed}, or add fewer "
                "steps."
            )
        done = jnp.asarray(steps.done)
        time = jnp.arange(n, dtype=jnp.int32)[:, None]
        slots = jnp.arange(n_slots, dtype=jnp.int32)
        back = jnp.arange(self.n_stack, 0, -1, dtype=jnp.int32)
        first = jnp.moveaxis(obs, -1, 2)
        newest = self.frames[(self.last_frame[:, None] - back + 1) % n_rows, slots[:, None]]
        # On a CPU the largest of bytes takes a third of the time of `any`.
        differs = (newest != first[0]).astype(jnp.uint8).max(axis=tuple(range(1, newest.ndim)))
        begins = self.steps.done[self.last_step] | (differs > 0)
        begins = jnp.concatenate([begins[None], done[:-1]])
        n_new = jnp.where(begins, self.n_stack + 1, 1)
        n_new = jnp.cumsum(n_new, axis=0, dtype=jnp.int32)
        to = (self.last_frame + n_new) % n_rows
        # Out of the ring, where nothing is written, if the frames of `obs` are known.
        of_first = jnp.where(begins[..., None], (to[..., None] - back) % n_rows, n_rows)
        frames = self.frames.at[of_first, slots[:, None]].set(first, mode="drop")
        rows = (self.last_step + 1 + time[:, 0]) % n_rows

        def write(ring: jax.Array, x: Any) -> jax.Array:
            return ring.at[rows].set(x)

        return replace(
            self,
            frames=frames.at[to, slots].set(next_obs[..., -1], mode="drop"),
            steps=jax.tree.map(write, self.steps, rest),
            n_seen=write(self.n_seen, self.n_seen[self.last_step] + n_new.astype(jnp.uint32)),
            last_frame=to[-1],
            last_step=rows[-1],
            n_steps=jnp.minimum(self.n_steps + n, n_rows),
        )

    def sample(self, rng: jax.Array, n_samples: int) -> Transition:
        """
        Draw steps uniformly, with replacement, among those whose frames are all in the buffer.

        These are all steps, but those that led to the `n_stack` oldest frames of a slot.

        Parameters
        ----------
        rng : jax.Array
            PRNG key.
        n_samples : int
            Number of steps.

        Returns
        -------
        Transition
            Each leaf with leading axis `n_samples`.
        """
        require_key(rng, "FrameBuffer.sample", "Map over them, by `jax.vmap`.")
        shape = (require_count("FrameBuffer.sample: expected n_samples", n_samples),)
        n_rows, n_slots = self.n_seen.shape
        n_now = self.n_seen[self.last_step]

        def draw(drawn: Any) -> Any:
            rng, row, slot, age = drawn
            again = age >= n_rows - self.n_stack
            rng, row_rng, slot_rng = jax.random.split(rng, 3)
            back = jax.random.randint(row_rng, shape, 0, self.n_steps, jnp.int32)
            row = jnp.where(again, (self.last_step - back) % n_rows, row)
            new_slot = jax.random.randint(slot_rng, shape, 0, n_slots, jnp.int32)
            slot = jnp.where(again, new_slot, slot)
            return rng, row, slot, n_now[slot] - self.n_seen[row, slot]

        zeros = jnp.zeros(shape, jnp.int32)
        drawn = rng, zeros, zeros, jnp.full(shape, n_rows, jnp.uint32)
        drawn = jax.lax.while_loop(lambda x: (x[3] >= n_rows - self.n_stack).any(), draw, drawn)
        _, row, slot, age = drawn
        newest = self.last_frame[slot] - age.astype(jnp.int32)
        back = jnp.arange(self.n_stack, -1, -1, dtype=jnp.int32)
        frames = self.frames[(newest[:, None] - back) % n_rows, slot[:, None]]
        frames = jnp.moveaxis(frames, 1, -1)
        steps: Transition = jax.tree.map(lambda ring: ring[row, slot], self.steps)
        return steps._replace(
            obs=replace_entry(steps.obs, self.key, frames[..., :-1]),
            next_obs=replace_entry(steps.next_obs, self.key, frames[..., 1:]),
        )


def _rows(x: Any) -> Any:
    """Shape and dtype of each leaf at one time."""

    def row(x: Any) -> str:
        return str(leaf_type(jax.ShapeDtypeStruct(x.shape[1:], canonical(x.dtype))))

    return jax.tree.map(row, x)


def _require_rows(name: str, held: Any, given: Any) -> None:
    if held != given:
        raise TypeError(
            f"FrameBuffer: expected `{name}` as in `init`, at each time {held}; got {given}. Add "
            "steps of the same batch with the same fields, one alone as "
            "`jax.tree.map(lambda x: x[None], step)`."
        )


def _stacks(obs: Any, key: str | None) -> jax.Array:
    if key is not None and not (is_mapping(obs) and key in obs):
        got = f"a dict of {', '.join(map(repr, obs))}" if is_mapping(obs) else describe(obs)
        raise ValueError(
            f"FrameBuffer: expected observations with an entry {key!r}, the `key`; got {got}. "
            "Correct `key`."
        )
    stacks = obs if key is None else obs[key]
    if not hasattr(stacks, "dtype"):
        raise TypeError(
            f"FrameBuffer: expected observations that are one stacked array; got "
            f"{type(stacks).__name__}. Pass `key`, the stacked entry of a dict."
        )
    return jnp.asarray(stacks)


def _require_rollout(obs: Any, next_obs: Any, done: Any) -> None:
    """Raise a ValueError unless these are stacks, and each row continues the one before."""
    if not close(obs[..., 1:], next_obs[..., :-1]):
        raise ValueError(
            "FrameBuffer: expected observations stacked along the last axis, the oldest first; got "
            f"some of shape {obs.shape[2:]} whose `next_obs` is not `obs` with one frame more. Put "
            "`FrameStackObservation` above all other wrappers of observations."
        )
    goes_on = ~done[:-1]
    if not close(obs[1:][goes_on], next_obs[:-1][goes_on]):
        raise ValueError(
            "FrameBuffer: expected steps with the axes time and slots, in which each row continues "
            "the one before; got one that begins elsewhere. Pass the steps of `rollout` as they "
            "come, and a single step of a batch as `jax.tree.map(lambda x: x[None], step)`."
        )


def _without_stacks(steps: Transition, key: str | None) -> Transition:
    rest = (replace_entry(x, key, None) for x in (steps.obs, steps.next_obs))
    return steps._replace(**dict(zip(("obs", "next_obs"), rest, strict=True)))
