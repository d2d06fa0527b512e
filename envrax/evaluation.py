"""`evaluate` and `evaluate_grid`: returns of a policy over whole episodes."""

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._core import counting, playing
from envrax._core.agents import add_rewards, by_agent
from envrax._core.checks import LONGEST, require_count
from envrax._core.counting import Count, Evaluation
from envrax._core.ends import episode_end
from envrax._core.playing import AnyBatch, Policies, Policy, Rollout, SplitPolicy
from envrax._fleet.fleet import Fleet
from envrax._jax.keys import require_key, threefry
from envrax._jax.mesh import on_every_device
from envrax._jax.programs import is_inside_jit, is_traced, program_per_env, strong
from envrax.autoreset.slot import step_slot
from envrax.env import AnyEnv, JaxEnv, with_config
from envrax.wrappers.randomization import require_dynamic

__all__ = ["Evaluation", "GridEvaluation", "evaluate", "evaluate_grid"]


class GridEvaluation(NamedTuple):
    """
    Result of `evaluate_grid`. `str` gives a table of mean returns.

    Attributes
    ----------
    returns, lengths, complete : jax.Array
        As in `Evaluation`, of shape `(*grid axes, n_episodes)`.
    grid : OrderedDict
        The values along each axis by field name, in the order of the axes.
    """

    returns: jax.Array
    lengths: jax.Array
    complete: jax.Array
    grid: OrderedDict[str, list[Any]]  # JAX sorts the keys of a plain dict

    def table(self) -> str:
        """Mean returns, of all agents together: the last field across, all others down."""
        *names, last = self.grid
        points = itertools.product(*(self.grid[name] for name in names))
        returns = np.sum([np.asarray(x) for x in jax.tree.leaves(self.returns)], axis=0)
        means = returns.mean(axis=-1).reshape(-1, len(self.grid[last]))
        rows = [[*names, *(f"{last}={_label(value)}" for value in self.grid[last])]]
        rows += [[*map(_label, [*point, *row])] for point, row in zip(points, means, strict=True)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.rjust, row, widths)) for row in rows)

    __str__ = table


def _label(value: Any) -> str:
    value = value.item() if np.shape(value) == () and hasattr(value, "item") else value
    return f"{value:.4g}" if isinstance(value, float) else f"{value}"


def evaluate(
    env: AnyEnv | AnyBatch | Fleet,
    policy: Policy | Policies | None,
    rng: jax.Array,
    n_episodes: int,
    *,
    policy_state: Any = None,
    max_steps: int | None = None,
) -> Evaluation:
    """
    Returns and lengths of the first `n_episodes` episodes that start, each played to its end.

    The first ones that *end* would be biased, since short episodes end first.

    Parameters
    ----------
    env : JaxEnv, BatchedEnv, MultiEnv or MultiVecEnv
        The environment. Episodes of a `JaxEnv` run in parallel: episode i is the first one that
        `rollout` plays from `start(env, jax.random.split(rng, n_episodes)[i], policy_state)`. Those
        of a batch are the ones that `rollout` plays from `start(env, rng, policy_state)`, ordered
        by the step in which they start, then by slot. Every member of a fleet plays `n_episodes`,
        member i with `jax.random.split(rng, M)[i]`.
    policy, policy_state
        As for `rollout` and `start`; the extras of the policy are dropped.
    rng : jax.Array
        One PRNG key.
    n_episodes : int
        Number of episodes.
    max_steps : int, optional
        Cut episodes after that many steps. A slot of a batch cannot be reset at a cut: it plays to
        the end of its episode, uncounted. After `max_steps * ceil(n_episodes / n_slots)` steps no
        more episodes begin, so use as many slots as episodes if all have to. Without `max_steps`,
        the call returns only when all episodes have ended.

    Returns
    -------
    Evaluation
        `returns`, `lengths` and `complete`, each of shape `(n_episodes,)`, or for a fleet a list or
        dict of those.

    Raises
    ------
    TypeError, ValueError
        As for `rollout`.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> found = evaluate(CountingEnv(), None, jax.random.key(0), 4)
    >>> found.lengths.tolist()
    [5, 5, 5, 5]
    """
    n_episodes, max_steps = _counts("evaluate", rng, n_episodes, max_steps)
    if isinstance(env, Fleet):
        fleet, how = cast(Any, env), dict(n_episodes=n_episodes, max_steps=max_steps)

        def one(member: Any, policy: Any, rng: jax.Array, state: Any) -> Evaluation:
            return evaluate(member, policy, rng, policy_state=state, **how)

        given: Any = dict(policy=policy, rng=rng, policy_state=policy_state)
        return Evaluation(*fleet._map("evaluate", one, **given))
    given = playing.split(policy), rng, policy_state
    inline = is_traced(given) or is_inside_jit() or not env.traceable
    run = _evaluated if inline else _compiled_evaluated
    found = run(env, n_episodes, max_steps, *given)
    with jax.debug_nans(False):  # NaN, not 0, which would lower a mean unnoticed
        known = [jnp.where(found.lengths > 0, x, jnp.nan) for x in jax.tree.leaves(found.returns)]
        return found._replace(returns=jax.tree.unflatten(jax.tree.structure(found.returns), known))


def evaluate_grid(
    env: AnyEnv,
    policy: Policy | None,
    rng: jax.Array,
    grid: Mapping[str, Sequence[Any]],
    n_episodes: int,
    *,
    policy_state: Any = None,
    max_steps: int | None = None,
) -> GridEvaluation:
    """
    Evaluate a policy on every combination of values of some fields of the config.

    Each point equals `evaluate` of `with_config(env, **point)`, up to float rounding. All points
    use the same keys and run in parallel in one compiled program, until the last episode ends.

    Parameters
    ----------
    env : JaxEnv
        The environment, not a batch.
    policy, rng, n_episodes, policy_state, max_steps
        As for `evaluate`.
    grid : mapping of str to sequence
        Values by field name; `"params.length"` is the entry `length` of the field `params`, a dict,
        as for the parameters of another library.

    Returns
    -------
    GridEvaluation
        `returns`, `lengths` and `complete`, with an axis for each field, in the order of `grid`,
        and then one of `n_episodes`.

    Raises
    ------
    TypeError
        If `env` is not a `JaxEnv`, a field is unknown, used as a static value or drawn by
        `DomainRandomization`, or a value does not fit.
    ValueError
        If the grid or one of its axes is empty.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> found = evaluate_grid(CountingEnv(), None, jax.random.key(0), {"max_steps": [2, 6]}, 3)
    >>> found.lengths.tolist()
    [[2, 2, 2], [6, 6, 6]]
    """
    if not isinstance(cast(Any, env), JaxEnv) or not env.traceable:
        raise TypeError(
            f"evaluate_grid: expected a JaxEnv that JAX can trace; got {env!r}. Pass one that "
            "`make` returned, without a batch around it."
        )
    n_episodes, max_steps = _counts("evaluate_grid", rng, n_episodes, max_steps)
    if not grid or not all(map(_is_axis, grid.values())):
        raise ValueError(f"evaluate_grid: expected values of `field` or `params.x`; got {grid!r}.")
    # As Python integers, for which JAX raises an error if int32 cannot hold them.
    axes = OrderedDict((name, [*map(_number, values)]) for name, values in grid.items())
    given = axes, playing.split(policy), rng, policy_state
    run = _evaluated_grid if is_traced(given) or is_inside_jit() else _compiled_grid
    with jax.transfer_guard_host_to_device("allow"):  # of the numbers in `grid`
        return GridEvaluation(*run(env, n_episodes, max_steps, *given), grid=axes)


def _counts(who: str, rng: Any, n_episodes: Any, max_steps: Any) -> tuple[int, int]:
    require_key(rng, who, "Pass one key.")
    n_episodes = require_count(f"{who}: expected n_episodes", n_episodes)
    if max_steps is None:
        return n_episodes, LONGEST
    return n_episodes, min(require_count(f"{who}: expected max_steps", max_steps), LONGEST)


def _evaluated(
    env: AnyEnv | AnyBatch,
    n_episodes: int,
    max_steps: int,
    policy: SplitPolicy,
    rng: Any,
    policy_state: Any,
) -> Evaluation:
    if isinstance(env, JaxEnv):
        one = partial(_episode, env, max_steps, policy, policy_state)
        rngs = jax.random.split(threefry(rng), n_episodes)
        if env.traceable:
            return jax.vmap(one)(rngs)
        return jax.tree.map(lambda *x: jnp.asarray(np.stack(x)), *map(one, rngs))

    def next_step(carry: tuple[Rollout, Count]) -> tuple[Rollout, Count]:
        at, transition = playing.step(env, policy, carry[0])
        rewards, done = on_every_device((transition.reward, transition.done))
        episode_end(env.name, (env.n_slots,), done, {})  # raises if `done` is not bool
        return at, counting.add(carry[1], rewards, done, max_steps)

    carry = playing.begin(env, rng, policy_state), counting.begin(env, n_episodes)
    _, count = playing.loop(
        env, lambda carry: counting.goes_on(carry[1], max_steps), next_step, carry
    )
    return Evaluation(count.returns, count.lengths, count.complete)


_compiled_evaluated = program_per_env(_evaluated, 0, 1)


def _episode(
    env: AnyEnv, max_steps: int, policy: SplitPolicy, policy_state: Any, rng: Any
) -> Evaluation:
    """One episode of a single environment."""

    def not_ended(carry: tuple[Rollout, Evaluation]) -> jax.Array:
        return ~carry[1].complete & (carry[1].lengths < max_steps)

    def next_step(carry: tuple[Rollout, Evaluation]) -> tuple[Rollout, Evaluation]:
        at, found = carry
        rng, action, policy_state, _ = playing.act(env, policy, at)
        obs, state, reward, _, _, ended = step_slot(env, at.env_state, playing.legal(env, action))
        found = Evaluation(add_rewards(found.returns, reward), found.lengths + 1, ended)
        return Rollout(obs, state, policy_state, rng), found

    none = Evaluation(by_agent(env, jnp.float32(0)), jnp.int32(0), jnp.bool_(False))
    return playing.loop(env, not_ended, next_step, (playing.begin(env, rng, policy_state), none))[1]


def _evaluated_grid(
    env: AnyEnv, n_episodes: int, max_steps: int, grid: OrderedDict[str, list[Any]], *given: Any
) -> Evaluation:
    axes = [jax.tree.map(lambda *x: strong(jnp.stack(x)), *values) for values in grid.values()]
    types = jax.eval_shape(lambda: jax.tree.map(lambda x: x[0], axes))
    require_dynamic("evaluate_grid", env, _fields(grid, types))

    def at(*point: Any) -> Evaluation:
        changed = with_config(env, **_fields(grid, point))
        return _evaluated(changed, n_episodes, max_steps, *given)

    function = at
    for i in reversed(range(len(axes))):  # the first axis is mapped outermost
        function = jax.vmap(function, [0 if i == j else None for j in range(len(axes))])
    return function(*axes)


def _is_axis(values: Any) -> bool:
    return hasattr(values, "__len__") and len(values) > 0 and not isinstance(values, Mapping)


def _number(x: Any) -> Any:
    return x.item() if isinstance(x, np.integer) else x


_compiled_grid = program_per_env(_evaluated_grid, 0, 1)


def _fields(names: Iterable[str], values: Sequence[Any]) -> dict[str, Any]:
    """Values by field name; `"params.length"` is an entry of the field `params`."""
    fields: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        field, dot, entry = name.partition(".")
        within = fields.setdefault(field, {}) if dot else fields
        within[entry or field] = value
    return fields
