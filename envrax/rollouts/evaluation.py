"""`Evaluation`: the result of `evaluate`."""

from typing import Any, NamedTuple, cast

import jax
import numpy as np

from envrax._jax.types import is_traced


class Evaluation(NamedTuple):
    """
    Result of `evaluate`: one entry for each episode. `str` gives a summary.

    Attributes
    ----------
    returns : jax.Array
        float32, the sum of the rewards. A dict by agent in a world of several.
    lengths : jax.Array
        int32, the number of steps.
    complete : jax.Array
        bool, False for an episode that `max_steps` cut, whose return and length are those so far.
    terminated : jax.Array
        bool, whether the episode ended by termination, not by truncation or a cut.
    info : dict
        The info of the last step of each episode, such as `info["success"]`.
    """

    returns: jax.Array
    lengths: jax.Array
    complete: jax.Array
    terminated: jax.Array
    info: dict[str, Any]

    def __str__(self) -> str:
        if is_traced(self):
            return repr(self)
        if isinstance(self.complete, list | dict):  # of a fleet
            complete: Any = self.complete
            names: list[Any] = [*(complete if hasattr(complete, "keys") else range(len(complete)))]
            members = {str(k): Evaluation(*(cast(Any, x)[k] for x in self)) for k in names}
            return "\n".join(f"{name}:\n{member}" for name, member in members.items())
        complete = np.asarray(self.complete)
        by_agent: Any = self.returns if isinstance(self.returns, dict) else {"": self.returns}
        lines = [f"return {agent} {_mean(x)}".replace("  ", " ") for agent, x in by_agent.items()]
        lines.append(f"length {_mean(self.lengths)}")
        lines.append(f"{complete.size} episodes, {int(np.sum(~complete))} of them cut")
        return "\n".join(lines)


def _mean(x: Any) -> str:
    """The mean, and its standard error."""
    x = np.asarray(x, np.float64)
    error = x.std(ddof=1) / np.sqrt(x.size) if x.size > 1 else np.nan
    return f"{x.mean():.4g} +- {error:.2g}"
