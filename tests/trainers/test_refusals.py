# pyright: reportMissingImports=false
"""What is refused: a sentence with what was expected, what was got, and what to do."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from trainers.outward import RoomsEnv

import envrax
from envrax import MultiEnv, MultiVecEnv, VecEnv
from envrax.interop import to_dm_env, to_gymnasium, to_gymnasium_vec, to_sb3
from envrax.testing import CountingEnv, MaskedEnv, NestedEnv

pytestmark = pytest.mark.trainers


class Naming(CountingEnv):
    """With infos `truth` and another one."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.info_name = name

    def step(self, state: Any, action: Any) -> Any:
        *rest, reward, done, info = super().step(state, action)
        return *rest, reward, done, {**info, "truth": reward, self.info_name: reward}


def one() -> Any:
    return to_gymnasium(CountingEnv())


def many(**kwargs: Any) -> Any:
    return to_gymnasium_vec(VecEnv(CountingEnv(), 2), **kwargs)


def sb3(env: Any = None) -> Any:
    return to_sb3(VecEnv(env or CountingEnv(), 2))


def begun(env: Any) -> Any:
    env.reset()
    return env


def with_options() -> Any:
    env = sb3()
    env.set_options({"mass": 2})
    return env.reset()


BATCH, SINGLE = "VecEnv(CountingEnv", "CountingEnv(FakeConfig"
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str, str, str]] = {
    "batch to to_gymnasium": (
        lambda: to_gymnasium(VecEnv(CountingEnv(), 2)), TypeError,
        "to_gymnasium: expected a JaxEnv", BATCH, "a batch to `to_gymnasium_vec`",
    ),
    "class to to_gymnasium": (
        lambda: to_gymnasium(CountingEnv), TypeError,
        "to_gymnasium: expected a JaxEnv", "class", "Pass",
    ),
    "gymnasium to to_gymnasium": (
        lambda: to_gymnasium(one()), TypeError,
        "to_gymnasium: expected a JaxEnv", "GymnasiumEnv", "Pass",
    ),
    "fleet to to_gymnasium": (
        lambda: to_gymnasium(MultiEnv([CountingEnv()])), TypeError,
        "to_gymnasium: expected a JaxEnv", "MultiEnv", "Pass",
    ),
    "single to to_gymnasium_vec": (
        lambda: to_gymnasium_vec(CountingEnv()), TypeError,
        "to_gymnasium_vec: expected a batched environment", SINGLE,
        "or one environment to `to_gymnasium`",
    ),
    "fleet to to_gymnasium_vec": (
        lambda: to_gymnasium_vec(MultiVecEnv([VecEnv(CountingEnv(), 2)])), TypeError,
        "to_gymnasium_vec: expected a batched environment", "MultiVecEnv", "Pass `VecEnv(env, n)`",
    ),
    "single to to_sb3": (
        lambda: to_sb3(CountingEnv()), TypeError,
        "to_sb3: expected a batched environment", SINGLE, "Pass `VecEnv(env, n)`",
    ),
    "batch to to_dm_env": (
        lambda: to_dm_env(VecEnv(CountingEnv(), 2)), TypeError,
        "to_dm_env: expected a JaxEnv", BATCH, "Pass",
    ),
    "array": (
        lambda: many(array="tensorflow"), ValueError,
        'expected array to be "numpy", "jax" or "torch"', "'tensorflow'", "numpy",
    ),
    "render mode": (
        lambda: to_gymnasium(CountingEnv(), render_mode="human"), ValueError,
        "to_gymnasium: expected render_mode to be None or", "'human'", "rgb_array",
    ),
    "render mode of a batch": (
        lambda: many(render_mode="ansi"), ValueError,
        "to_gymnasium_vec: expected render_mode to be None or", "'ansi'", "rgb_array",
    ),
    "render without a picture": (
        lambda: to_gymnasium(NestedEnv(), render_mode="rgb_array"), TypeError,
        "to_gymnasium: expected an environment that implements render", "NestedEnv",
        "Leave out `render_mode`",
    ),
    "step before reset": (
        lambda: one().step(0), RuntimeError,
        "to_gymnasium: expected `reset` before `step`", "none", "Call `reset` first",
    ),
    "step before reset of a batch": (
        lambda: many().step([0, 0]), RuntimeError,
        "to_gymnasium_vec: expected `reset` before `step`", "none", "Call `reset` first",
    ),
    "step before reset of sb3": (
        lambda: sb3().step(np.zeros(2, int)), RuntimeError,
        "to_sb3: expected `reset` before `step`", "none", "Call `reset` first",
    ),
    "render before reset": (
        lambda: to_gymnasium(CountingEnv(), render_mode="rgb_array").render(), RuntimeError,
        "to_gymnasium: expected `reset` before `render`", "none", "Call `reset` first",
    ),
    "images before reset": (
        lambda: sb3().get_images(), RuntimeError,
        "to_sb3: expected `reset` before `render`", "none", "Call `reset` first",
    ),
    "shape of an action": (
        lambda: begun(one()).step([0, 1]), ValueError,
        "to_gymnasium: step: expected action of shape (), int32", "list", "action_space.sample",
    ),
    "shape of actions": (
        lambda: begun(many()).step(np.zeros(3, int)), ValueError,
        "to_gymnasium_vec: step: expected actions of shape (2,), int32", "(3,)",
        "action_space.sample",
    ),
    "kind of actions": (
        lambda: begun(many()).step(np.zeros(2)), TypeError,
        "to_gymnasium_vec: step: expected actions of shape (2,), int32", "float64", "astype",
    ),
    "kind of actions of sb3": (
        lambda: begun(sb3()).step(np.zeros(2)), TypeError,
        "to_sb3: step: expected actions of shape (2,), int32", "float64", "astype",
    ),
    "shape of an action of dm_env": (
        lambda: begun(to_dm_env(CountingEnv())).step([0, 1]), ValueError,
        "to_dm_env: step: expected action of shape (), int32", "list", "action_space.sample",
    ),
    "options": (
        lambda: one().reset(options={"mass": 2}), ValueError,
        "to_gymnasium: reset: expected no options", "mass", "config",
    ),
    "options of a batch": (
        lambda: many().reset(options={"reset_mask": np.ones(2, bool)}), ValueError,
        "to_gymnasium_vec: reset: expected no options", "reset_mask", "config",
    ),
    "options of sb3": (
        with_options, ValueError, "to_sb3: reset: expected no options", "mass", "config",
    ),
    "seed too large": (
        lambda: one().reset(seed=2**32), ValueError,
        "to_gymnasium: reset: expected a seed from 0 to 2**32 - 1", "4294967296",
        "Pass one of these",
    ),
    "seed below 0 of sb3": (
        lambda: (env := sb3(), env.seed(-1), env.reset()), ValueError,
        "to_sb3: reset: expected a seed from 0 to 2**32 - 1", "-1", "Pass one of these",
    ),
    "seed of dm_env": (
        lambda: to_dm_env(CountingEnv(), seed=1.5).reset(), TypeError,
        "to_dm_env: reset: expected one seed", "1.5", "Pass an int",
    ),
    "seeds of a batch": (
        lambda: many().reset(seed=[1, 2]), TypeError,
        "to_gymnasium_vec: reset: expected one seed", "[1, 2]", "Pass an int",
    ),
    "nested observations to sb3": (
        lambda: sb3(NestedEnv()), TypeError,
        "to_sb3: expected observations that Stable-Baselines3 takes", "Dict", "Flatten",
    ),
    "tuple to sb3": (
        lambda: sb3(RoomsEnv()), TypeError,
        "to_sb3: expected observations that Stable-Baselines3 takes", "Tuple", "Flatten",
    ),
    "an info of Gymnasium's own": (
        lambda: begun(to_gymnasium_vec(VecEnv(Naming("final_info"), 2))).step([0, 0]), ValueError,
        "expected infos without names that Gymnasium uses", "'final_info' among", "Rename",
    ),
    "an info of a mask": (
        lambda: begun(to_gymnasium_vec(VecEnv(Naming("_truth"), 2))).step([0, 0]), ValueError,
        "expected infos without names that Gymnasium uses", "'truth' among", "Rename",
    ),
    "change of an attribute": (
        lambda: sb3().set_attr("config", 1), NotImplementedError,
        "to_sb3: set_attr: expected no change of `config`", "fixed", "Make another one",
    ),
    "masks of none": (
        lambda: begun(sb3()).action_masks(), RuntimeError,
        "to_sb3: action_masks: expected an environment with masks", "none", "Call `reset` first",
    ),
    "masks before reset": (
        lambda: sb3(MaskedEnv()).env_method("action_masks"), RuntimeError,
        "to_sb3: action_masks: expected an environment with masks, after `reset`", "none",
        "Call `reset` first",
    ),
    "masks as an attribute": (
        lambda: sb3().get_attr("action_masks"), AttributeError,
        "to_sb3: expected an environment with masks", BATCH, "Give it an `action_mask`",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_input_is_refused_in_a_sentence(case: str) -> None:
    call, error, expected, got, to_do = REFUSED[case]
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert expected in message and got in message and to_do in message
    assert message.endswith(".")


def test_seeds_that_gymnasium_itself_refuses() -> None:
    for seed in (-1, 1.5, "1"):
        with pytest.raises(gymnasium.error.Error):
            one().reset(seed=seed)


BLOCKED = [
    ("gymnasium", "to_gymnasium", "gymnasium", "gymnasium"),
    ("gymnasium", "to_gymnasium_vec", "gymnasium", "gymnasium"),
    ("gymnasium", "to_space", "gymnasium", "gymnasium"),
    ("gymnasium", "from_space", "gymnasium", "gymnasium"),
    ("stable_baselines3", "to_sb3", "stable_baselines3", "sb3"),
    ("dm_env", "to_dm_env", "dm-env", "dm-env"),
]


def test_a_library_that_is_not_installed_is_named(run_python: Callable[..., str]) -> None:
    out = run_python(
        f"""
        import sys
        for module, name, package, extra in {BLOCKED!r}:
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
                assert f'pip install "envrax[{{extra}}]"' in message, message
                print("refused", name)
        """
    )
    assert out.split("\n")[:-1] == [f"refused {name}" for _, name, *_ in BLOCKED]


def test_torch_that_is_not_installed_is_named(run_python: Callable[..., str]) -> None:
    out = run_python(
        """
        import sys
        sys.modules["torch"] = None
        from envrax import VecEnv
        from envrax.interop import to_gymnasium_vec
        from envrax.testing import CountingEnv
        try:
            to_gymnasium_vec(VecEnv(CountingEnv(), 2), array="torch")
        except ImportError as error:
            print(error)
        """
    )
    assert 'pip install "envrax[torch]"' in out


def test_interop_imports_no_trainer(run_python: Callable[..., str]) -> None:
    out = run_python(
        """
        import sys
        import envrax.interop
        from envrax.interop import PeerEnv
        names = ["gymnasium", "stable_baselines3", "dm_env", "torch", "envpool"]
        print([name for name in names if name in sys.modules])
        """
    )
    assert out.strip() == "[]"


def test_no_such_bridge() -> None:
    with pytest.raises(AttributeError, match="no attribute 'to_nothing'"):
        envrax.interop.to_nothing  # noqa: B018
