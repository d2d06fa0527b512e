#!/usr/bin/env bash
# What: which checkpoints a CheckpointManager with `best_fn` keeps when a metric is NaN.
# Version: orbax-checkpoint 0.12.8 with jax 0.11.2, Python 3.11.
# Expected: a step whose metric is NaN, as after a loss that diverged, is never the best: with
#   max_to_keep=1 the step with the highest return stays.
# Seen: the newest step beats a NaN and a NaN beats the best, since steps are sorted by metric and a NaN
#   compares as neither less nor more. The best checkpoint is deleted from disk, without a word, and what
#   is kept depends on the order. Save with a metric of -inf in place of NaN.
# Output:
#   returns [3.0, 0.0, 1.0] - kept: [3.0]
#   returns [3.0, nan, 1.0] - kept: [1.0]
#   returns [3.0, 1.0, nan] - kept: [nan]
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet orbax-checkpoint==0.12.8 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import logging
import tempfile

import numpy as np
import orbax.checkpoint as ocp

logging.disable(logging.WARNING)
nan = float("nan")


def kept(returns):
    options = ocp.CheckpointManagerOptions(
        max_to_keep=1, best_fn=lambda metrics: metrics["return"], enable_async_checkpointing=False
    )
    with tempfile.TemporaryDirectory() as folder, ocp.CheckpointManager(folder, options=options) as manager:
        for step, value in enumerate(returns):
            args = ocp.args.StandardSave({"weights": np.zeros(2)})
            manager.save(step, args=args, metrics={"return": value})
        return [returns[step] for step in manager.all_steps()]


for returns in ([3.0, 0.0, 1.0], [3.0, nan, 1.0], [3.0, 1.0, nan]):
    print("returns", returns, "- kept:", kept(returns))
assert kept([3.0, 0.0, 1.0]) == [3]
assert kept([3.0, nan, 1.0]) == [1], "it changed"
assert np.isnan(kept([3.0, 1.0, nan])), "it changed"
PY
