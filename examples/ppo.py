"""
PPO on any environment that envrax knows by name, in pure JAX.

    python examples/ppo.py                                     CartPole, in seconds
    python examples/ppo.py classic/Pendulum-v0 --seed 1
    python examples/ppo.py jumanji/Snake-v1                    of a library that is installed
    python examples/ppo.py their/Env-v0 --import their_package --total-steps 2000000
    python examples/ppo.py gymnasium:ALE/Pong-v5               of Gymnasium, on the host
    python examples/ppo.py --checkpoint runs/long              goes on there when started again
    python examples/ppo.py --mesh                              on all local devices

Rollouts and updates are one compiled program, `PPO.train`; Python calls it twenty times and draws
the progress bar. Beside this file: `ppo_algorithm.py` has the algorithm, `ppo_options.py` the
hyper-parameters, `ppo_spaces.py` and `ppo_views.py` the wrappers, `ppo_network.py` the policies and
their network, `ppo_agents.py` worlds of several agents, `ppo_host.py` environments of Gymnasium,
`ppo_mesh.py` several devices, `ppo_checkpoint.py` what a killed training goes on from, and
`ppo_report.py` the picture and the video. `multi_task.py` trains one policy on several
environments, and `dqn.py` learns off-policy.
"""
# ruff: noqa: E402

import time

START = time.perf_counter()  # before the imports, to include them

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from ppo_agents import AgentsPPO
from ppo_algorithm import PPO
from ppo_options import HOST, Options, parse
from tqdm import tqdm

import envrax

EVALUATION_SEED = 1_000_003  # the same starts before and after training


def compiled(ppo: PPO) -> list[Any]:
    """`init`, `train` and `evaluate`, compiled in parallel."""
    state = jax.eval_shape(ppo.init, 0)
    traced = [
        jax.jit(ppo.init).lower(0),
        jax.jit(ppo.train, donate_argnums=0).lower(state),
        jax.jit(ppo.evaluate).lower(state.params, 0),
    ]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda program: program.compile(), traced))


class Result(NamedTuple):
    """The trained parameters, the learning curve of each task, and both evaluations."""

    params: Any
    curves: list[tuple[np.ndarray, np.ndarray]]
    before: np.ndarray
    after: np.ndarray


def run(ppo: PPO, checkpoints: Any = None) -> Result:
    """Train and evaluate, with a progress bar; go on from the newest of the `Checkpoints`."""
    o, postfix = ppo.options, dict.fromkeys(ppo.tasks, "?")
    init, train, evaluate = compiled(ppo)
    state, calls = init(o.seed), 0
    before = np.asarray(evaluate(state.params, EVALUATION_SEED))
    history = np.zeros((o.n_calls, o.updates_per_call, 2, len(ppo.tasks)), np.float32)
    if checkpoints:
        (state, history), calls = checkpoints.restore((state, history))
    size = o.updates_per_call * o.batch_size  # of a call, in steps
    total, seen = o.n_calls * size, calls * size
    with tqdm(total=total, initial=seen, unit=" steps", unit_scale=True) as bar:
        for call in range(calls, o.n_calls):
            state, history[call] = train(state)
            for task, total, episodes in zip(ppo.tasks, *history[call].sum(axis=0), strict=True):
                if episodes:
                    postfix[task] = f"{total / episodes:.4g}"
            if checkpoints:
                checkpoints.save((state, history), call + 1)
            bar.set_postfix(postfix, refresh=False)
            bar.update(size)
    after = np.asarray(evaluate(state.params, EVALUATION_SEED))
    steps = np.arange(1, o.n_calls * o.updates_per_call + 1) * o.batch_size
    by_task = np.concatenate(history).transpose(2, 1, 0)
    curves = [(steps[n > 0], total[n > 0] / n[n > 0]) for total, n in by_task]
    return Result(state.params, curves, before, after)


def trainer(options: Options, mesh: bool = False) -> PPO:
    """The one that fits the environment; leaves the process with a sentence if none does."""
    try:
        if mesh:
            from ppo_mesh import MeshPPO

            return MeshPPO(options)
        if options.env.startswith(HOST):
            from ppo_host import HostPPO  # imports Gymnasium

            return HostPPO(options)
        several = envrax.get_spec(options.env).is_batched
        return AgentsPPO(options) if several else PPO(options)
    except (ImportError, TypeError, ValueError) as error:
        raise SystemExit(f"ppo.py: error: {error}") from error


def saved_in(folder: Path | None, options: Options) -> Any:
    """The `Checkpoints` in a folder, or None."""
    if folder is None:
        return None
    from ppo_checkpoint import Checkpoints  # Orbax is slow to import

    return Checkpoints(folder, options)


def main(arguments: Sequence[str] | None = None) -> None:
    options, how = parse(arguments)
    folder = Path("runs") / f"{options.env.removeprefix(HOST)}-{options.seed}"
    print(f"PPO on {options.env}, seed {options.seed}: compiling")
    ppo = trainer(options, how.mesh)
    checkpoints = saved_in(how.checkpoint, options)
    result = run(ppo, checkpoints)
    for name, returns in (("before", result.before), ("after", result.after)):
        score = f"{returns.mean():.2f} ± {returns.std():.2f}"
        print(f"{name:>6}: {score} over the first {ppo.n_episodes} episodes started")

    from ppo_report import save_curve, save_video  # matplotlib is slow to import

    title, (curve,) = f"PPO on {options.env}", result.curves
    save_curve(folder / "curve.png", title, curve, result.before, result.after)
    print(f"{time.perf_counter() - START:.1f} s of wall time, imports and compilation included")
    if how.video and not options.env.startswith(HOST):
        act = jax.jit(partial(ppo.act, result.params))
        save_video(folder, ppo.single_env, act, options.fps, EVALUATION_SEED)
    print(f"see {folder}")


if __name__ == "__main__":
    main()
