# pyright: basic, reportMissingImports=false
"""`params` of brax and MuJoCo Playground: by name, drawn, in threads; beside models by hand."""

import importlib
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import written_again
from interop.by_hand import by_hand, equal, make

from envrax import DomainRandomization, VecEnv, evaluate, evaluate_grid, with_config
from envrax._jax.types import named_leaves
from envrax.interop.peer.mujoco_model import MujocoModel, as_sample

CARTPOLE, PENDULUM = "playground/CartpoleBalance", "brax/inverted_pendulum"
ATTRIBUTE = {CARTPOLE: "_mjx_model", PENDULUM: "sys"}
DRAWN = {
    CARTPOLE: ("dof_damping", "body_mass", "dof_armature"),
    PENDULUM: ("dof.damping", "link.inertia.mass", "dof.armature"),
}
MODEL = {"mass": jnp.float32(1)}
ids = pytest.mark.parametrize("id", [CARTPOLE, PENDULUM])
kept = cache(make)  # building one takes seconds


def drawing(env: Any, id: str) -> Any:
    """Each of the fields from half to twice its value."""
    fields = named_leaves(env.params)

    def sample(rng: Any) -> Any:
        names = DRAWN[id]
        factors = 2.0 ** jax.random.uniform(rng, (len(names),), jnp.float32, -1, 1)
        return {"params": {k: fields[k] * x for k, x in zip(names, factors, strict=True)}}

    return sample


def n_bytes(tree: Any) -> int:
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))


def test_changes_of_numpy_may_be_edited_at_once() -> None:
    env = kept(PENDULUM)
    name = "dof.damping"
    value = np.asarray(named_leaves(env.params)[name]) * 3
    found = written_again(lambda x: with_config(env, params={name: x}).config.params[name], value)
    equal(found, value)


def test_the_model_of_the_library_is_left_as_it_was() -> None:
    """After changes by name, errors in the middle, and calls from threads around one object."""
    id, adapter = PENDULUM, importlib.import_module("envrax.interop.brax")
    env = make(id)
    before = getattr(env.peer, ATTRIBUTE[id])
    name, *_ = DRAWN[id]
    heavy = with_config(env, params={name: named_leaves(env.params)[name] * 5})
    other = adapter.wrap(env.peer, {name: named_leaves(env.params)[name] * 3})
    assert getattr(env.peer, ATTRIBUTE[id]) is before and env.params is before
    key, action = jax.random.key(0), jnp.full(env.action_space.shape, 0.5)

    def reward(env: Any) -> Any:
        _, state = env.reset(key)
        with pytest.raises(ZeroDivisionError), env._model.set_in_library(env.changes):
            raise ZeroDivisionError
        return [np.asarray(env.step(state, action)[0])]

    separate = [reward(x)[0] for x in (env, heavy, other)]
    assert not (separate[0] == separate[1]).all() and not (separate[1] == separate[2]).all()
    for x in (env, heavy, other):  # each compiles at the same time as the others
        x._begin, x._advance, x._types_by_key = jax.jit(x._begin_with), jax.jit(x._advance_with), {}
    found: dict[int, Any] = {}
    threads = [
        threading.Thread(target=lambda i=i, x=x: found.update({i: reward(x)[0]}))
        for i, x in enumerate((env, heavy, other))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, expected in enumerate(separate):
        np.testing.assert_array_equal(found[i], expected)
    assert getattr(env.peer, ATTRIBUTE[id]) is before


def test_only_drawn_fields_are_kept_and_a_draw_compiles_nothing(compile_counter: Any) -> None:
    id = PENDULUM
    env = make(id, max_steps=3)
    sample = drawing(env, id)
    vec_env = VecEnv(DomainRandomization(env, sample), 4)
    obs, states = vec_env.reset(jax.random.key(0))
    plain = VecEnv(env, 4).reset(jax.random.key(0))[1]
    drawn = jax.eval_shape(sample, jax.random.key(0))
    assert n_bytes(states.fields) == 4 * n_bytes(drawn)
    assert n_bytes(states.env_state) == n_bytes(plain)
    actions = jnp.zeros((4, *env.action_space.shape))
    first = states.fields["params"][DRAWN[id][0]]
    _, states, *_ = vec_env.step(states, actions)
    with compile_counter() as compiled:
        for _ in range(3):
            _, states, *_ = vec_env.step(states, actions)
    assert compiled.count == 0
    assert not (first == states.fields["params"][DRAWN[id][0]]).any()  # drawn again


def test_changes_add_up_and_a_whole_model_is_a_change() -> None:
    env = kept(CARTPOLE)
    assert (type(env.params).__name__, env.params.opt.timestep.shape) == ("Model", ())
    slow = with_config(env, params={"opt.timestep": 0.002})
    both = with_config(slow, params={"dof_damping": env.params.dof_damping * 2})
    again = with_config(both, max_steps=9)
    for x in (both, again, pickle.loads(pickle.dumps(both))):
        assert x.params.opt.timestep == np.float32(0.002)
        equal(x.params.dof_damping, env.params.dof_damping * 2)
        assert sorted(x.config.params) == ["dof_damping", "opt.timestep"]
    assert again.config.max_steps == 9 and len(pickle.dumps(again)) < 5000
    whole = make(CARTPOLE, params=both.params)
    key, action = jax.random.key(0), jnp.ones(1)
    equal(whole.step(whole.reset(key)[1], action)[0], both.step(both.reset(key)[1], action)[0])


def test_a_grid() -> None:
    env = make(PENDULUM, max_steps=30)
    grid = {"params.dof.damping": [named_leaves(env.params)["dof.damping"] * x for x in (1.0, 9.0)]}
    found = evaluate_grid(env, None, jax.random.key(0), grid, 2)
    for i, damping in enumerate(grid["params.dof.damping"]):
        one = with_config(env, params={"dof.damping": damping})
        expected = evaluate(one, None, jax.random.key(0), 2)
        np.testing.assert_array_equal(found.lengths[i], expected.lengths)


def test_images_show_the_drawn_model() -> None:
    env = kept(CARTPOLE)
    lower = env.params.body_pos - jnp.array([0.0, 0.0, 0.3])
    wide = with_config(env, params={"body_pos": lower})
    _, state = env.reset(jax.random.key(0))
    try:
        plain, drawn = env.render(state), wide.render(state)
    except NotImplementedError as error:  # a machine without OpenGL
        assert "MUJOCO_GL" in str(error)
        return
    assert (plain != drawn).mean() > 0.01
    np.testing.assert_array_equal(plain, env.render(state))


def scaled(names: tuple[str, ...], shared: dict[str, float]) -> Any:
    """A randomiser in the protocol of both libraries; all slots share the changes of `shared`."""

    def randomize(model: Any, rng: Any) -> Any:
        fields = named_leaves(model)

        def one(key: Any) -> Any:
            factors = jax.random.uniform(key, (len(names),), minval=0.5, maxval=2.0)
            return {k: fields[k] * x for k, x in zip(names, factors, strict=True)}

        axes = jax.tree.map(lambda x: None, model)
        batch = model.tree_replace(jax.vmap(one)(rng))
        batch = batch.tree_replace({k: fields[k] * x for k, x in shared.items()})
        return batch, axes.tree_replace(dict.fromkeys(names, 0))

    return randomize


GRAVITY = {CARTPOLE: "opt.gravity", PENDULUM: "gravity"}


@ids
def test_randomisers_of_the_libraries(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit the slots of the library's own wrapper, also where all share a change."""
    library, _, name = id.partition("/")
    adapter: Any = importlib.import_module(f"envrax.interop.{library}")
    fn, env = scaled(DRAWN[id], {GRAVITY[id]: 0.25}), make(id)
    if library == "playground":
        assert adapter.registry.get_domain_randomizer(name) is None
        monkeypatch.setattr(adapter.registry, "get_domain_randomizer", lambda id: fn)
        sample = adapter.randomizer(name)
        wrapper = importlib.import_module("mujoco_playground").wrapper
        wrapped: Any = wrapper.BraxDomainRandomizationVmapWrapper
    else:
        sample = adapter.randomizer(fn)
        wrapped = importlib.import_module("brax.envs.wrappers.training")
        wrapped = wrapped.DomainRandomizationVmapWrapper
    second = jax.vmap(lambda key: jax.random.split(key)[1])
    keys = jax.random.split(jax.random.key(0), 3)
    rest = jax.vmap(lambda key: jax.random.split(key)[0])(keys)
    theirs = wrapped(make(id).peer, lambda model: fn(model, second(keys)))
    ours = DomainRandomization(env, sample)
    attribute = {CARTPOLE: "_mjx_model_v", PENDULUM: "_sys_v"}[id]
    batch = getattr(theirs, attribute)
    changed = {k: named_leaves(batch)[k] for k in (GRAVITY[id], *DRAWN[id])}

    def called(method: str) -> Any:
        """With the changed fields as arguments, since XLA rounds constants differently."""

        def call(changed: Any, *args: Any) -> Any:
            setattr(theirs, attribute, batch.tree_replace(changed))
            return getattr(theirs, method)(*args)

        return partial(by_hand(call), changed)

    inner = called("reset")(second(rest))
    obs, state = jax.jit(jax.vmap(ours.reset))(keys)
    equal(obs, inner.obs)
    theirs_step, step = called("step"), jax.jit(jax.vmap(ours.step))
    for push in np.linspace(-1, 1, 20, dtype=np.float32):
        actions = jnp.full((3, 1), push)
        inner = theirs_step(inner, actions)
        obs, state, reward, *_ = step(state, actions)
        equal((obs, reward), (inner.obs, inner.reward))
    assert len(np.unique(obs, axis=0)) == 3


@ids
def test_changes_that_all_slots_share_are_kept_without_any_draw(id: str) -> None:
    env, change = kept(id), {GRAVITY[id]: 0.25}
    sample = as_sample(scaled((), change))
    drawn = jax.jit(lambda key: sample(key, env))(jax.random.key(0))
    expected = named_leaves(env.params)[GRAVITY[id]] * 0.25
    assert list(drawn["params"]) == [GRAVITY[id]]
    equal(drawn["params"][GRAVITY[id]], expected)
    fn = scaled(DRAWN[id], change)
    _, axes = fn(env.params, jax.random.key(0)[None])
    compiled = jax.jit(lambda model, rng: fn(model, rng)[0])  # all its results are new arrays
    sample = as_sample(lambda model, rng: (compiled(model, rng), axes))
    drawn = jax.jit(lambda key: sample(key, env))(jax.random.key(0))
    assert set(drawn["params"]) == {GRAVITY[id], *DRAWN[id]}


def test_no_randomiser() -> None:
    adapter = importlib.import_module("envrax.interop.playground")
    with pytest.raises(ValueError, match="CartpoleBalance"):
        adapter.randomizer("CartpoleBalance")


def test_without_changes_nothing_is_set() -> None:
    class Owner:
        sys = property(lambda self: MODEL)  # without a setter

    physics = MujocoModel(Owner(), "sys")
    with physics.set_in_library({}):
        pass
    with pytest.raises(AttributeError), physics.set_in_library({"mass": jnp.float32(2)}):
        pass


def test_a_whole_system_of_another_build_is_a_change() -> None:
    env = kept(PENDULUM)
    heavy = env.params.tree_replace({"link.inertia.mass": env.params.link.inertia.mass * 3})
    assert not make(PENDULUM, params=env.params).changes
    assert sorted(make(PENDULUM, params=heavy).changes) == ["link.inertia.mass"]


def test_drawn_params_are_given_by_name() -> None:
    env = kept(PENDULUM)
    with pytest.raises(TypeError, match="dict"):
        DomainRandomization(env, lambda rng: {"params": env.params})
    nothing = lambda model, rng: (model, jax.tree.map(lambda x: None, model))  # noqa: E731
    adapter = importlib.import_module("envrax.interop.brax")
    with pytest.raises(TypeError, match="axis"):
        DomainRandomization(env, adapter.randomizer(nothing))
    with pytest.raises(TypeError, match="params"):
        DomainRandomization(env, lambda rng: {"gravity": 9.0})
    with pytest.raises(ValueError, match="params"):
        nested: Any = {"params": {"gravity": [1.0]}}
        evaluate_grid(env, None, jax.random.key(0), nested, 1)


def test_an_object_is_wrapped_with_its_own_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even while another thread has set another one."""
    owner: Any = type("Owner", (), {"sys": MODEL})()
    asked = threading.Event()

    class Lock:
        lock = threading.RLock()

        def __enter__(self) -> None:
            asked.set()
            self.lock.acquire()

        def __exit__(self, *error: object) -> None:
            self.lock.release()

    monkeypatch.setattr("envrax.interop.peer.mujoco_model._LOCK", Lock())
    with ThreadPoolExecutor() as pool:
        with MujocoModel(owner, "sys").set_in_library({"mass": jnp.float32(2)}):
            asked.clear()
            other = pool.submit(MujocoModel, owner, "sys")
            other.add_done_callback(lambda _: asked.set())  # if it did not ask for the lock
            asked.wait()
        assert other.result().model is MODEL


def test_arrays_of_the_caller_are_copied() -> None:
    env = make(PENDULUM, options={"backend": "positional"})
    gravity = np.array([0, 0, -5], np.float32)
    changed = with_config(env, params={"gravity": gravity})
    gravity[2] = 500
    changed.config.params["gravity"] = jnp.zeros(3)
    assert changed.params.gravity[2] == changed.changes["gravity"][2] == -5


def test_params_and_max_steps_of_a_bridge() -> None:
    interop, env = importlib.import_module("envrax.interop"), make(PENDULUM)
    wrap = importlib.import_module("envrax.interop.brax").wrap
    assert wrap(interop.to_brax(env)) is env
    again = wrap(interop.to_brax(env), {"gravity": jnp.zeros(3)}, max_steps=3)
    assert again.config.max_steps == 3 and again.params.gravity[2] == 0


@pytest.mark.parametrize(
    ("id", "changes", "noun"),
    [
        (CARTPOLE, {"dof_dampin": 1.0}, "dof_dampin"),
        (CARTPOLE, {"opt": 1.0}, "opt"),
        (CARTPOLE, {"opt.iterations": 9}, "opt.iterations"),
        (CARTPOLE, {"dof_damping": 1.0}, "dof_damping"),
        (CARTPOLE, {"opt.timestep": "fast"}, "opt.timestep"),
        (CARTPOLE, {"dof_frictionloss": np.ones(2, np.float32)}, "dof_frictionloss"),
        (PENDULUM, {"dof_damping": np.ones(2, np.float32)}, "dof_damping"),
        (PENDULUM, 5, "System"),
    ],
)
def test_errors(id: str, changes: Any, noun: str) -> None:
    with pytest.raises(TypeError, match=noun):
        with_config(kept(id), params=changes)
    if isinstance(changes, dict) and not isinstance(next(iter(changes.values())), str):
        with pytest.raises(TypeError, match=noun):
            DomainRandomization(kept(id), lambda rng: {"params": changes})


def test_what_is_given_when_it_is_built_is_checked_too() -> None:
    for params, noun in ((kept("playground/PendulumSwingup").params, "model"), ({"opt": 1}, "opt")):
        with pytest.raises(TypeError, match=noun):
            make(CARTPOLE, params=params)
