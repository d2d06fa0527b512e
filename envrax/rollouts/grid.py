"""`evaluate_grid`: a policy on every combination of some config fields."""

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.counts import require_limit
from envrax._jax.programs import programs
from envrax._jax.returned import strip_weak_type
from envrax._jax.types import is_traced
from envrax.env import AnyEnv, JaxEnv, with_config
from envrax.rollouts.evaluate import read_for_one, require_counts, side_by_side
from envrax.rollouts.policy import Policy, read_policy
from envrax.rollouts.results import Evaluation, aligned, mean_and_error
from envrax.wrappers.traced_fields import require_dynamic


class GridEvaluation(NamedTuple):
    """
    Result of `evaluate_grid`. `str` gives a table of mean returns and their errors.

    Attributes
    ----------
    returns, lengths, complete, terminated, info
        As in `Evaluation`, of shape `(*grid axes, n_episodes)`, after leading axes of `jax.vmap`.
    grid : OrderedDict
        The values along each axis by field name, in the order of the axes.
    """

    returns: jax.Array
    lengths: jax.Array
    complete: jax.Array
    terminated: jax.Array
    info: dict[str, Any]
    grid: OrderedDict[str, list[Any]]  # JAX sorts the keys of a plain dict

    def table(self, *axes: str, over: str = "") -> str:
        """
        Mean returns and their standard errors: the last field across, all others down.

        Of several agents, the sum of their returns. All points play the same keys: compare two by
        the differences of their episodes. Arrays and dicts have a number, and stand below.

        Parameters
        ----------
        *axes : str
            Names for the leading axes that `jax.vmap` of `evaluate_grid` adds, such as "policy" and
            "seed". There is a row for each index.
        over : str, optional
            The leading axis to take the mean over. The error is then that of the means of its
            entries, such as those of training seeds, and not that of episodes.

        Raises
        ------
        ValueError
            If the number of names is not that of the leading axes, or `over` is none of them.
        """
        returns = np.sum([np.asarray(x) for x in jax.tree.leaves(self.returns)], axis=0)
        n_axes = returns.ndim - len(self.grid) - 1
        mapped = returns.shape[:n_axes]
        names = [*(axes or (f"axis {i}" for i in range(n_axes)))]
        if len(names) != n_axes or over not in ("", *names):
            raise ValueError(
                f"GridEvaluation.table: expected names of {n_axes} leading axes, and `over` to be "
                f"one of them; got {axes} and over={over!r}."
            )
        if over:
            axis = names.index(over)
            returns = np.expand_dims(np.moveaxis(returns.mean(-1), axis, -1), axis)
        rows: list[list[str]] = []
        last_header: list[str] = []
        legend: dict[str, None] = {}  # each line once
        for at in np.ndindex(returns.shape[:n_axes]):
            grid = _at(self.grid, at, mapped)
            legend |= dict.fromkeys(_legend(grid))
            header, *found = _rows(grid, returns[at])
            if header != last_header:  # unless `jax.vmap` maps over the values of the grid
                rows.append([*(name for name in names if name != over), *header])
            index = [f"{i}" for i, name in zip(at, names, strict=True) if name != over]
            rows += [[*index, *row] for row in found]
            last_header = header
        return "\n".join([aligned(rows), *legend])

    __str__ = table


def _at(grid: Any, at: tuple[int, ...], mapped: tuple[int, ...]) -> dict[str, Any]:
    """The values at an index of the leading axes, where they have these."""

    def take(x: Any) -> Any:
        return x[at] if mapped and np.shape(x)[: len(at)] == mapped else x

    return {name: jax.tree.map(take, values) for name, values in grid.items()}


def _rows(grid: Mapping[str, list[Any]], returns: np.ndarray) -> Iterator[list[str]]:
    labels = {name: [*map(_label, values, itertools.count())] for name, values in grid.items()}
    *names, last = labels
    yield [*names, *(f"{last}={label}" for label in labels[last])]
    n_columns = len(labels[last])
    cells = [*map(mean_and_error, returns.reshape(-1, returns.shape[-1]))]
    for i, point in enumerate(itertools.product(*(labels[name] for name in names))):
        yield [*point, *cells[i * n_columns : (i + 1) * n_columns]]


def _label(value: Any, number: int) -> str:
    if _is_long(value):
        return f"#{number}"
    value = value.item() if hasattr(value, "item") else value
    return f"{value:.4g}" if isinstance(value, float) else f"{value}"


def _is_long(value: Any) -> bool:
    return np.shape(value) != () or isinstance(value, dict)


def _legend(grid: Mapping[str, list[Any]]) -> Iterator[str]:
    """A line for each value that is an array or a dict."""
    for name, values in grid.items():
        for i, value in enumerate(values):
            if _is_long(value):
                text = " ".join(f"{jax.tree.map(np.asarray, value)}".split())
                yield f"{name} #{i}: {text if len(text) <= 80 else f'{text[:77]}...'}"


def evaluate_grid(
    env: AnyEnv,
    policy: Policy | None,
    rng: jax.Array,
    grid: Mapping[str, Sequence[Any]],
    n_episodes: int | None = None,
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
    _, n_episodes, max_steps = require_counts("evaluate_grid", rng, n_episodes, max_steps)
    if not grid or not all(map(_is_axis, grid.values())):
        raise ValueError(
            "evaluate_grid: expected a dict from `field` or `params.x` to sequences of values, not "
            f"empty; got {grid!r}. Write [5.0] for one value; `evaluate` takes no grid."
        )
    axes = OrderedDict((name, _numbers(name, values)) for name, values in grid.items())
    played, jitted = read_policy(env, policy)
    given = axes, read_for_one(env, played, rng, policy_state), rng, policy_state
    owners = [env] if jitted is None else [env, jitted]
    run = partial(_evaluated_grid, env) if is_traced(given) else _compiled_grid(*owners)
    with jax.transfer_guard_host_to_device("allow"):  # of the numbers in `grid`
        found: Any = run(n_episodes, max_steps, *given)
    return GridEvaluation(*found, grid=axes)


def _evaluated_grid(
    env: AnyEnv, n_episodes: int, max_steps: int, grid: OrderedDict[str, list[Any]], *given: Any
) -> Evaluation:
    axes = [jax.tree.map(_as_axis, *values) for values in grid.values()]
    types = jax.eval_shape(lambda: jax.tree.map(lambda x: x[0], axes))
    require_dynamic("evaluate_grid", env, _fields(grid, types))

    def at(*point: Any) -> Evaluation:
        changed = with_config(env, **_fields(grid, point))
        return side_by_side(changed, n_episodes, max_steps, *given)

    function = at
    for i in reversed(range(len(axes))):  # the first axis is mapped outermost
        function = jax.vmap(function, [0 if i == j else None for j in range(len(axes))])
    return function(*axes)


def _is_axis(values: Any) -> bool:
    is_sequence = hasattr(values, "__len__") and not isinstance(values, Mapping | str)
    return is_sequence and len(values) > 0


def _numbers(name: str, values: Any) -> list[Any]:
    """The values of an axis; a TypeError unless they are numbers, or pytrees of one form."""
    numbers = [*map(_number, values)]
    forms = [jax.tree.map(_shape, x, is_leaf=lambda x: x is None) for x in numbers]
    for x, form in zip(numbers, forms, strict=True):
        if form != forms[0] or None in jax.tree.leaves(form, is_leaf=lambda x: x is None):
            raise TypeError(
                f"evaluate_grid: expected the values of `{name}` to be numbers, or arrays of one "
                f"shape; got {x!r} among {values!r}."
            )
    if name == "max_steps":
        return [require_limit("evaluate_grid: expected max_steps", x) for x in numbers]
    return jax.tree.map(_within_int32, numbers)


def _number(x: Any) -> Any:
    return x.item() if isinstance(x, np.integer) else x


def _within_int32(x: Any) -> Any:
    """The same, or an error for an int that int32 cannot hold, with x64 too."""
    return int(np.int32(x)) if type(x) is int else x


def _as_axis(*numbers: Any) -> jax.Array:
    stacked = jnp.stack(numbers)
    is_int = stacked.aval.weak_type and jnp.issubdtype(stacked.dtype, jnp.integer)
    return stacked.astype(jnp.int32) if is_int else strip_weak_type(stacked)


def _shape(x: Any) -> Any:
    """The shape of a number or an array, as text; None for anything else."""
    is_number = isinstance(x, bool | int | float | complex) or hasattr(x, "dtype")
    return f"{np.shape(x)}" if is_number else None


_compiled_grid = programs(_evaluated_grid, 0, 1)


def _fields(names: Iterable[str], values: Sequence[Any]) -> dict[str, Any]:
    """Values by field name; `"params.length"` is an entry of the field `params`."""
    fields: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        field, dot, entry = name.partition(".")
        within = fields.setdefault(field, {}) if dot else fields
        within[entry or field] = value
    return fields
