"""The vectorised auto-reset loops of other libraries, as they document them, and those of peers."""

import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.rollout import Loop
from envrax import Discrete, make_vec


def module(name: str) -> Any:
    return importlib.import_module(name)


def keys(n: int) -> jax.Array:
    return jax.random.split(jax.random.PRNGKey(0), n)


def typed_keys(n: int) -> jax.Array:
    """For a library that keeps the key in its state, which steps replace by a typed one."""
    return jax.random.split(jax.random.key(0), n)


def gymnax(id: str, n: int) -> Loop:
    env, params = module("gymnax").make(id)

    def step(state: Any, actions: Any, rng: jax.Array) -> Any:
        vmapped = jax.vmap(env.step, (0, 0, 0, None))
        obs, state, reward, terminated, truncated, _ = vmapped(
            jax.random.split(rng, n), state, actions, params
        )
        return state, (obs, reward, terminated | truncated)

    return Loop(jax.vmap(env.reset, (0, None))(keys(n), params)[1], step)


def brax(id: str, n: int) -> Loop:
    """The wrappers of `brax.envs.create`: time limit, vmap, auto-reset."""
    env = module("brax.envs").create(id, batch_size=n)
    return _of_brax(env, jax.jit(env.reset)(jax.random.PRNGKey(0)))


def playground(id: str, n: int) -> Loop:
    """What Playground's trainers use, with the physics on the same backend as the adapter's."""
    env, config = _playground(id)
    env = module("mujoco_playground").wrapper.wrap_for_brax_training(
        env, episode_length=config.episode_length
    )
    return _of_brax(env, jax.jit(env.reset)(keys(n)))


def _playground(id: str) -> tuple[Any, Any]:
    registry = module("mujoco_playground").registry
    config = registry.get_default_config(id)
    overrides = {"impl": "jax"} if "impl" in config else {}
    return registry.load(id, config_overrides=overrides), config


def _of_brax(env: Any, start: Any) -> Loop:
    def step(state: Any, actions: Any, rng: jax.Array) -> Any:
        state = env.step(state, actions)
        return state, (state.obs, state.reward, state.done)

    return Loop(start, step)


def jumanji(id: str, n: int) -> Loop:
    wrappers = module("jumanji.wrappers")
    env = wrappers.VmapWrapper(wrappers.AutoResetWrapper(module("jumanji").make(id)))
    state, timestep = jax.jit(env.reset)(keys(n))

    def step(carry: Any, actions: Any, rng: jax.Array) -> Any:
        state, timestep = env.step(carry[0], actions)
        seen = timestep.observation, timestep.reward, timestep.last()
        return (state, _mask_of(timestep.observation)), seen

    mask = _mask_of(timestep.observation)
    return Loop((state, mask), step, None if mask is None else lambda carry: carry[1])


def _mask_of(observation: Any) -> Any:
    return getattr(observation, "action_mask", None)


def navix(id: str, n: int) -> Loop:
    env = module("navix").make(id)

    def step(timestep: Any, actions: Any, rng: jax.Array) -> Any:
        timestep = jax.vmap(env.step)(timestep, actions)
        return timestep, (timestep.observation, timestep.reward, timestep.step_type > 0)

    return Loop(jax.jit(jax.vmap(env.reset))(keys(n)), step)


def craftax(id: str, n: int) -> Loop:
    env = module("craftax.craftax_env").make_craftax_env_from_name(id, auto_reset=True)
    return _of_old_gymnax(env, env.default_params, n)


def craftax_optimistic(id: str, n: int) -> Loop:
    """The wrapper that craftax's README recommends, with its default of 16 slots for a reset."""
    env = module("craftax.craftax_env").make_craftax_env_from_name(id, auto_reset=False)
    params, n_fresh = env.default_params, n // 16
    reset = jax.vmap(env.reset, (0, None))

    def step(state: Any, actions: Any, rng: jax.Array) -> Any:
        step_rng, reset_rng, choice_rng = jax.random.split(rng, 3)
        vmapped = jax.vmap(env.step, (0, 0, 0, None))
        obs, state, reward, done, _ = vmapped(jax.random.split(step_rng, n), state, actions, params)
        fresh = reset(jax.random.split(reset_rng, n_fresh), params)
        which = jax.random.randint(choice_rng, (n,), 0, n_fresh)

        def replace(new: jax.Array, old: jax.Array) -> jax.Array:
            return jax.vmap(jnp.where)(done, new[which].astype(old.dtype), old)

        obs, state = jax.tree.map(replace, fresh, (obs, state))
        return state, (obs, reward, done)

    return Loop(jax.jit(reset)(typed_keys(n), params)[1], step)


def kinetix(id: str, n: int) -> Loop:
    return _of_old_gymnax(*_kinetix(id, auto_reset=True), n)


def _kinetix(id: str, auto_reset: bool) -> tuple[Any, Any]:
    home = module("kinetix.environment")
    level, static, params = module("kinetix.util.saving").load_from_json_file(id)
    kinds = home.ActionType.DISCRETE, home.ObservationType.SYMBOLIC_FLAT
    env = home.make_kinetix_env(*kinds, lambda rng: level, params, static, auto_reset=auto_reset)
    return env, params


def _of_old_gymnax(env: Any, params: Any, n: int) -> Loop:
    def step(state: Any, actions: Any, rng: jax.Array) -> Any:
        vmapped = jax.vmap(env.step, (0, 0, 0, None))
        obs, state, reward, done, _ = vmapped(jax.random.split(rng, n), state, actions, params)
        return state, (obs, reward, done)

    reset = jax.jit(jax.vmap(env.reset, (0, None)))
    return Loop(reset(typed_keys(n), params)[1], step)


def pgx(id: str, n: int) -> Loop:
    """In a game of two a step is both moves, as in envrax; the second is drawn at random."""
    env = module("pgx").make(id)
    auto = module("pgx.experimental").auto_reset(env.step, env.init)
    actions_of_all = Discrete(env.num_actions).batch(n)

    def move(state: Any, actions: Any, rng: jax.Array) -> Any:
        return jax.vmap(auto)(state, actions, jax.random.split(rng, n))

    def step(state: Any, actions: Any, rng: jax.Array) -> Any:
        rng, second, draw = jax.random.split(rng, 3)
        state = move(state, actions, rng)
        reward, done = state.rewards, state.terminated | state.truncated
        if env.num_players > 1:
            others = actions_of_all.sample(draw, state.legal_action_mask)
            state = move(state, others, second)
            reward += state.rewards
            done |= state.terminated | state.truncated
        return state, (state.observation, reward, done)

    start = jax.jit(jax.vmap(env.init))(keys(n))
    return Loop(start, step, lambda state: state.legal_action_mask)


def xminigrid(id: str, n: int) -> Loop:
    env, params = module("xminigrid").make(id)
    env = module("xminigrid.wrappers").GymAutoResetWrapper(env)

    def step(timestep: Any, actions: Any, rng: jax.Array) -> Any:
        timestep = jax.vmap(env.step, (None, 0, 0))(params, timestep, actions)
        return timestep, (timestep.observation, timestep.reward, timestep.last())

    return Loop(jax.jit(jax.vmap(env.reset, (None, 0)))(params, keys(n)), step)


def jaxmarl(id: str, n: int) -> Loop:
    env = module("jaxmarl").make(id)

    def step(state: Any, actions: Any, rng: jax.Array) -> Any:
        obs, state, rewards, dones, _ = jax.vmap(env.step)(jax.random.split(rng, n), state, actions)
        return state, (obs, rewards, dones["__all__"])

    start = jax.jit(jax.vmap(env.reset))(keys(n))[1]

    def mask(state: Any) -> Any:
        masks = jax.vmap(env.get_avail_actions)(state)
        return {name: masks[name] > 0 for name in env.agents}

    try:
        jax.eval_shape(mask, start)
    except NotImplementedError:
        return Loop(start, step)
    return Loop(start, step, mask)


def jaxtari(id: str, n: int) -> Loop:
    """Its wrappers of objects, for single frames, without no-ops and other starts of its own."""
    wrappers = module("jaxtari.wrappers")
    plain = {"sticky_actions": 0.0, "episodic_life": False, "first_fire": False, "noop_max": 0}
    env = wrappers.AtariWrapper(module("jaxtari").make(id), **plain)
    env = wrappers.ObjectCentricWrapper(env, frame_stack_size=1, frame_skip=1, clip_reward=False)

    def step(state: Any, actions: Any, rng: jax.Array) -> Any:
        obs, state, reward, terminated, truncated, _ = jax.vmap(env.step)(state, actions)
        return state, (obs, reward, terminated | truncated)

    return Loop(jax.jit(jax.vmap(env.reset))(keys(n))[1], step)


def ours(id: str, n: int, **options: Any) -> tuple[Loop, Any]:
    """The same by `make_vec`, and the spaces of its actions."""
    env: Any = make_vec(id, n, pre_warm=False, cache_dir=None, **options)
    return of_batch(env, env.reset(jax.random.key(0))[1]), env.action_space


def of_batch(env: Any, start: Any) -> Loop:
    """A batch from a state, or from the shapes and dtypes of one."""

    def step(state: Any, actions: Any, rng: jax.Array) -> Any:
        obs, state, reward, done, _ = env.step(state, actions)
        return state, (obs, reward, done)

    has_mask = jax.eval_shape(env.action_mask, start) is not None
    return Loop(start, step, env.action_mask if has_mask else None)


def stoa(library: str, id: str, n: int) -> Loop:
    """An environment of Stoa, its auto-reset and its vmap; new starts, and no reset beneath it."""
    home = module("stoa")
    adapters = module(f"stoa.env_adapters.{library}")
    env = STOA[library](adapters, id)
    if not hasattr(jax.eval_shape(env.reset, jax.random.PRNGKey(0))[0], "rng_key"):
        env = home.AddRNGKey(env)
    env = module("stoa.core_wrappers.vmap").VmapWrapper(home.AutoResetWrapper(env), n)
    mask_of = STOA_MASKS.get(library, lambda timestep: None)
    state, timestep = jax.jit(env.reset)(jax.random.PRNGKey(0))

    def step(carry: Any, actions: Any, rng: jax.Array) -> Any:
        state, timestep = env.step(carry[0], actions)
        seen = timestep.observation, timestep.reward, timestep.last()
        return (state, mask_of(timestep)), seen

    mask = mask_of(timestep)
    return Loop((state, mask), step, None if mask is None else lambda carry: carry[1])


STOA: dict[str, Callable[[Any, str], Any]] = {
    "gymnax": lambda home, id: home.GymnaxToStoa(*module("gymnax").make(id)),
    "brax": lambda home, id: home.BraxToStoa(module("brax.envs").create(id, auto_reset=False)),
    "jumanji": lambda home, id: home.JumanjiToStoa(module("jumanji").make(id)),
    "navix": lambda home, id: home.NavixToStoa(module("navix").make(id, disable_autoreset=True)),
    "pgx": lambda home, id: home.PGXToStoa(module("pgx").make(id)),
    "xminigrid": lambda home, id: home.XMiniGridToStoa(*module("xminigrid").make(id)),
    "kinetix": lambda home, id: home.KinetixToStoa(*_kinetix(id, auto_reset=False)),
    "playground": lambda home, id: home.MuJoCoPlaygroundToStoa(_playground(id)[0]),
}
STOA_MASKS: dict[str, Callable[[Any], Any]] = {
    "jumanji": lambda timestep: _mask_of(timestep.observation),
    "pgx": lambda timestep: timestep.extras["legal_action_mask"] > 0,
}
