# pyright: reportMissingImports=false
"""Errors of the bridges: their type and one noun."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from envrax import Dict, MultiVecEnv, VecEnv
from envrax.interop import to_dm_env, to_gymnasium, to_gymnasium_vec, to_sb3
from envrax.testing import CountingEnv, NestedEnv


class Naming(CountingEnv):
    """An environment with two infos, `truth` and one of a given name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.info_name = name

    def step(self, state: Any, action: Any) -> Any:
        *rest, reward, done, info = super().step(state, action)
        return *rest, reward, done, {**info, "truth": reward, self.info_name: reward}


class NoReward(CountingEnv):
    def step(self, state: Any, action: Any) -> Any:
        obs, state, _, done, info = super().step(state, action)
        return obs, state, None, done, info


class Seen(NamedTuple):
    a: Any


class OtherContainer(CountingEnv):
    @property
    def observation_space(self) -> Any:
        return Dict(a=super().observation_space)

    def observe(self, state: Any) -> Any:
        return Seen(super().observe(state))


BATCH = VecEnv(CountingEnv(), 2)


def many(**kwargs: Any) -> Any:
    return to_gymnasium_vec(VecEnv(CountingEnv(), 2), **kwargs)


def sb3(env: Any = None) -> Any:
    return to_sb3(VecEnv(env or CountingEnv(), 2))


def named(name: str) -> Any:
    return begun(to_gymnasium_vec(VecEnv(Naming(name), 2))).step([0, 0])


def begun(env: Any) -> Any:
    env.reset()
    return env


def single(**kwargs: Any) -> Any:
    return to_gymnasium(CountingEnv(), **kwargs)


ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a batch to to_gymnasium": (lambda: to_gymnasium(BATCH), TypeError, "to_gymnasium_vec"),
    "a class to to_gymnasium": (lambda: to_gymnasium(CountingEnv), TypeError, "JaxEnv"),
    "a batch to to_dm_env": (lambda: to_dm_env(BATCH), TypeError, "JaxEnv"),
    "one to to_gymnasium_vec": (lambda: to_gymnasium_vec(CountingEnv()), TypeError, "VecEnv"),
    "one to to_sb3": (lambda: to_sb3(CountingEnv()), TypeError, "VecEnv"),
    "a fleet": (lambda: to_gymnasium_vec(MultiVecEnv([BATCH])), TypeError, "MultiVecEnv"),
    "no reward": (
        lambda: begun(to_gymnasium(NoReward())).step(0),
        TypeError,
        "one reward; got None",
    ),
    "a NamedTuple for a Dict": (
        lambda: to_gymnasium(OtherContainer()).reset(),
        ValueError,
        r"OtherContainer.reset: expected obs to be a dict with keys \['a'\]; got a Seen",
    ),
    "array": (lambda: many(array="tensorflow"), ValueError, "array"),
    "render mode": (
        lambda: single(render_mode="human"),
        ValueError,
        "render_mode to be None or .*; got .human.. `gymnasium.wrappers` have `HumanRendering`",
    ),
    "no picture": (lambda: to_gymnasium(NestedEnv(), render_mode="rgb_array"), TypeError, "render"),
    "step before reset": (lambda: single().step(0), RuntimeError, "reset"),
    "images before reset": (lambda: sb3().get_images(), RuntimeError, "reset"),
    "shape of an action": (lambda: begun(single()).step([0, 1]), ValueError, "shape"),
    "shape of actions": (lambda: begun(many()).step(np.zeros(3, int)), ValueError, "shape"),
    "kind of actions": (lambda: begun(sb3()).step(np.zeros(2)), TypeError, "int32"),
    "a mask": (lambda: many().reset(options={"reset_mask": [True] * 2}), ValueError, "DISABLED"),
    "seed below 0": (lambda: (env := sb3(), env.seed(-1), env.reset()), ValueError, "seed"),
    "one seed too many": (lambda: many().reset(seed=[1, 2, 3]), ValueError, "seed"),
    "a key as seeds": (
        lambda: many().reset(seed=jax.random.PRNGKey(0)),
        TypeError,
        "2 ints; got a JAX array of uint32, which may be a key",
    ),
    "seeds in lists": (
        lambda: many().reset(seed=[[1, 2], [3]]),
        TypeError,
        r"to_gymnasium_vec: reset: expected seed to be an int; got \[1, 2\]",
    ),
    "nested observations": (lambda: sb3(NestedEnv()), TypeError, "Flatten"),
    "an info of Gymnasium's": (lambda: named("final_info"), ValueError, "final_info"),
    "an info of a mask": (lambda: named("_truth"), ValueError, "truth"),
    "masks of none": (lambda: begun(sb3()).action_masks(), RuntimeError, "masks"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_wrong_input_is_an_error(case: str) -> None:
    call, error, noun = ERRORS[case]
    with pytest.raises(error, match=noun):
        call()


BLOCKED = [
    ("gymnasium", "to_gymnasium_vec", "gymnasium", "gymnasium"),
    ("gymnasium", "to_space", "gymnasium", "gymnasium"),
    ("stable_baselines3", "to_sb3", "stable_baselines3", "stable-baselines3"),
    ("dm_env", "to_dm_env", "dm-env", "dm-env"),
    ("pufferlib", "to_pufferlib", "pufferlib-core", "gymnasium"),
]


def test_a_library_that_is_not_installed_is_named(run_python: Callable[..., str]) -> None:
    out = run_python(
        f"""
        import sys
        for module, name, package, installed in {BLOCKED!r}:
            sys.modules.update(dict.fromkeys(m for m in sys.modules if m.startswith(module)))
            sys.modules[module] = None
            for known in [m for m in sys.modules if m.startswith("envrax.interop.")]:
                del sys.modules[known]
            import envrax.interop
            try:
                getattr(envrax.interop, name)
            except envrax.MissingPackageError as error:
                message = str(error)
                assert isinstance(error, ImportError)
                assert f"expected {{package}} " in message, message
                assert f'pip install "{{installed}}>=' in message, message
                print("refused", name)
        """
    )
    assert out.split("\n")[:-1] == [f"refused {name}" for _, name, *_ in BLOCKED]


def test_interop_imports_no_trainer(run_python: Callable[..., str]) -> None:
    out = run_python(
        """
        import sys
        import envrax.interop
        from envrax.interop import PeerEnv
        names = ["gymnasium", "stable_baselines3", "dm_env", "torch", "envpool", "minari"]
        names += ["pufferlib"]
        print([name for name in names if name in sys.modules])
        """
    )
    assert out.strip() == "[]"
