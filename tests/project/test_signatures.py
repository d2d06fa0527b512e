"""The public names: the module that each is in, and the signature of each."""

import importlib
import inspect
from typing import Any

import numpy as np
import pytest

import envrax
import envrax.autoreset
import envrax.interop.gymnasium_spaces
import envrax.interop.out.gymnasium  # the bridges are imported when they are asked for
import envrax.interop.out.gymnasium_vec
import envrax.interop.out.gymnax
import envrax.multi_agent
import envrax.rollouts
import envrax.testing
import envrax.wrappers.vector
from envrax import DEFAULT_CACHE_DIR

# The module of each public name; all but those of `testing` and `multi_agent` are at the top level.
HOMES = {
    "env": "JaxEnv EnvState EnvConfig with_config",
    "spaces": "Space Discrete Box MultiDiscrete MultiBinary Tuple Dict",
    "wrappers": "Wrapper StatefulWrapper JitWrapper GrayscaleObservation ResizeObservation "
    "NormalizeObservation FrameStackObservation ClipReward ExpandDims EpisodeDiscount "
    "RecordEpisodeStatistics RecordVideo FrameStackState EpisodeStatisticsState save_video vector "
    "AtariPreprocessing ClipAction DelayObservation DiscretizeAction DomainRandomization "
    "DtypeObservation EpisodicLife FilterObservation FlattenAction FlattenObservation "
    "MaxAndSkipObservation NanGuard RepeatAction RescaleAction RescaleObservation "
    "ReshapeObservation StartStates StickyAction TimeAwareObservation TimeLimit TransformAction "
    "TransformObservation TransformReward",
    "batched_env": "BatchedEnv",
    "vec_env": "BatchedEnv VecEnv",
    "multi_env": "MultiEnv",
    "multi_vec_env": "MultiVecEnv",
    "registry": "EnvSpec register register_suite unregister get_spec registered_names "
    "available_suites",
    "suite": "EnvSuite EnvSet load_suite",
    "envs": "EnvSuite EnvSet",
    "make": "make make_vec make_multi make_multi_vec",
    "rollouts": "start rollout Rollout Transition episodes Episode evaluate evaluate_grid "
    "Evaluation GridEvaluation",
    "saving": "save load",
    "sharding": "shard ShardedEnv",
    "error": "MissingPackageError",
    "testing": "check_env check_batched_env report_env report_batched_env Finding Report "
    "ConformanceError match_env Match Check Case CountingEnv ImageEnv MaskedEnv NestedEnv "
    "RingWorld NimWorld ChaseWorld",
    "multi_agent": "MultiAgentEnv OneAgent agents_as_slots with_policy_state",
}

# The promised signatures, one callable a line. More parameters are allowed if they are keyword-only
# and have a default.
SIGNATURES = """
    env.EnvState(rng, step, done)
    env.EnvConfig(max_steps=1000)
    env.JaxEnv(config=None)
    env.JaxEnv.reset(rng)
    env.JaxEnv.step(state, action)
    env.JaxEnv.action_mask(state)
    env.JaxEnv.active(state)
    env.JaxEnv.render(state)
    env.JaxEnv.compile()
    env.with_config(env, /, **fields)

    spaces.Space.sample(rng, mask=None)
    spaces.Space.contains(x)
    spaces.Space.batch(n)
    spaces.Discrete(n, dtype="int32")
    spaces.Box(low, high, shape, dtype="float32")
    spaces.MultiDiscrete(nvec, dtype="int32")
    spaces.flatten(space, x)
    spaces.unflatten(space, flat)

    wrappers.Wrapper(env)
    wrappers.JitWrapper(env, cache_dir=DEFAULT_CACHE_DIR, *, pre_warm=True)
    wrappers.JitWrapper.compile()
    wrappers.GrayscaleObservation(env, *, key=None)
    wrappers.ResizeObservation(env, h=84, w=84, *, key=None)
    wrappers.NormalizeObservation(env, *, key=None)
    wrappers.FrameStackObservation(env, n_stack=4, *, key=None)
    wrappers.ClipReward(env)
    wrappers.ExpandDims(env)
    wrappers.EpisodeDiscount(env)
    wrappers.RecordEpisodeStatistics(env)
    wrappers.RecordVideo(env, output_dir="runs/recordings", fps=30, episode_trigger=None, \
step_trigger=None, recording_trigger=None)
    wrappers.RecordVideo.close()
    wrappers.save_video(path, frames, fps=30)
    wrappers.vector.BatchedWrapper(env)
    wrappers.vector.NormalizeObservation(env, epsilon=1e-8, *, key=None, clip=None, frozen=False)
    wrappers.vector.NormalizeReward(env, gamma=0.99, epsilon=1e-8, *, frozen=False)
    wrappers.vector.RecordVideo(env, output_dir="runs/recordings", fps=30, *, slots=None, \
grid=None, episode_trigger=None, step_trigger=None, length=None, frozen=False)
    wrappers.AtariPreprocessing(env, noop_max=30, frame_skip=4, screen_size=84, \
terminal_on_life_loss=False, grayscale_obs=True, grayscale_newaxis=False, scale_obs=False)
    wrappers.ClipAction(env)
    wrappers.DelayObservation(env, delay)
    wrappers.DiscretizeAction(env, bins, multidiscrete=False)
    wrappers.DomainRandomization(env, sample, redraw=True)
    wrappers.DtypeObservation(env, dtype)
    wrappers.EpisodicLife(env)
    wrappers.FilterObservation(env, filter_keys)
    wrappers.FlattenAction(env)
    wrappers.FlattenObservation(env)
    wrappers.MaxAndSkipObservation(env, skip=4)
    wrappers.RepeatAction(env, num_repeats)
    wrappers.RescaleAction(env, min_action, max_action)
    wrappers.RescaleObservation(env, min_obs, max_obs)
    wrappers.ReshapeObservation(env, shape)
    wrappers.StartStates(env, sample)
    wrappers.StickyAction(env, repeat_action_probability)
    wrappers.TimeAwareObservation(env, flatten=True, normalize_time=False, *, \
dict_time_key="time")
    wrappers.TimeLimit(env, max_steps=None)
    wrappers.TransformAction(env, func, action_space=None)
    wrappers.TransformObservation(env, func, observation_space=None)
    wrappers.TransformReward(env, func)

    batched_env.BatchedEnv.reset(rng)
    batched_env.BatchedEnv.step(state, actions)
    batched_env.BatchedEnv.reset_where(mask, obs, state, rng=None, *, starts=None)
    batched_env.BatchedEnv.action_mask(state)
    batched_env.BatchedEnv.active(state)
    batched_env.BatchedEnv.slot_state(state, slot_idx=0)
    batched_env.BatchedEnv.render_slot(state, slot_idx=0)
    batched_env.BatchedEnv.compile(cache_dir=DEFAULT_CACHE_DIR)
    batched_env.BatchedEnv.close()

    vec_env.VecEnv(env, num_envs, *, jit_compile=True, final_obs=False)
    vec_env.VecEnv.reset(rng)
    vec_env.VecEnv.step(state, actions)
    vec_env.VecEnv.action_mask(state)
    vec_env.VecEnv.active(state)
    vec_env.VecEnv.reset_where(mask, obs, state, rng=None, *, starts=None)
    vec_env.VecEnv.slot_state(state, slot_idx=0)
    vec_env.VecEnv.render_slot(state, slot_idx=0)
    vec_env.VecEnv.render(state, *, index=0)
    vec_env.VecEnv.compile(cache_dir=DEFAULT_CACHE_DIR)
    vec_env.VecEnv.close()

    multi_agent.MultiAgentEnv(config=None)
    multi_agent.OneAgent(env, agent, others, policy_state=None, *, end_with_agent=True)
    multi_agent.with_policy_state(env, state, policy_state)
    multi_agent.agents_as_slots(batched_env, agents=None, others=None)

    multi_env.MultiEnv(envs)
    multi_env.MultiEnv.reset(rng)
    multi_env.MultiEnv.step(states, actions)
    multi_env.MultiEnv.action_masks(states)
    multi_env.MultiEnv.reset_at(idx, rng)
    multi_env.MultiEnv.step_at(idx, state, action)
    multi_env.MultiEnv.pad_dims()
    multi_env.MultiEnv.compile(*, progress=True)
    multi_env.MultiEnv.close()

    multi_vec_env.MultiVecEnv(vec_envs)
    multi_vec_env.MultiVecEnv.reset(rng)
    multi_vec_env.MultiVecEnv.step(states, actions)
    multi_vec_env.MultiVecEnv.reset_where(masks, obs, states, rng=None, *, starts=None)
    multi_vec_env.MultiVecEnv.action_masks(states)
    multi_vec_env.MultiVecEnv.reset_at(idx, rng)
    multi_vec_env.MultiVecEnv.step_at(idx, state, action)
    multi_vec_env.MultiVecEnv.slot_state(states, idx, slot_idx=0)
    multi_vec_env.MultiVecEnv.render_slot(states, idx, slot_idx=0)
    multi_vec_env.MultiVecEnv.pad_dims()
    multi_vec_env.MultiVecEnv.compile(*, progress=True)
    multi_vec_env.MultiVecEnv.close()

    registry.EnvSpec(name, env_class, default_config, suite="", wrappers=())
    registry.register(name, cls, default_config, *, suite="", wrappers=())
    registry.register_suite(suite, *, version=None)
    registry.unregister(name)
    registry.get_spec(name)
    registry.registered_names()
    registry.available_suites()
    suite.load_suite(prefix)

    suite.EnvSuite(prefix="", category="", version="v0", required_packages=FACTORY, specs=FACTORY)
    suite.EnvSuite.get_name(name, version=None)
    suite.EnvSuite.all_names(version=None)
    suite.EnvSuite.check()
    suite.EnvSuite.is_available()
    suite.EnvSet(*suites)
    suite.EnvSet.all_names(version=None)
    suite.EnvSet.env_categories()
    suite.EnvSet.verify_packages()
    suite.EnvSet.from_names(names)

    make.make(name, *, config=None, wrappers=None, jit_compile=True, pre_warm=True, \
cache_dir=DEFAULT_CACHE_DIR, **fields)
    make.make_vec(name, n_envs, *, config=None, wrappers=None, jit_compile=True, pre_warm=True, \
cache_dir=DEFAULT_CACHE_DIR, **fields)
    make.make_multi(names, *, wrappers=None, jit_compile=True, pre_warm=False, \
cache_dir=DEFAULT_CACHE_DIR, **fields)
    make.make_multi_vec(names, n_envs=None, *, wrappers=None, jit_compile=True, pre_warm=False, \
cache_dir=DEFAULT_CACHE_DIR, **fields)

    rollouts.start(env, rng, policy_state=None)
    rollouts.rollout(env, policy, start, n_steps, *, progress=False, collect=None)
    rollouts.Rollout(obs, env_state, policy_state, rng)
    rollouts.Transition(obs, action, reward, done, terminated, truncated, next_obs, info, extras)
    saving.save(path, tree)
    saving.load(path, like)
    sharding.shard(batched_env, mesh, axis=None)
    sharding.ShardedEnv(env, mesh, axis=None)
    rollouts.evaluate(env, policy, rng, n_episodes=None, *, policy_state=None, max_steps=None)
    rollouts.evaluate_grid(env, policy, rng, grid, n_episodes=None, *, policy_state=None, \
max_steps=None)
    rollouts.Evaluation(returns, lengths, complete, terminated, info)
    rollouts.episodes(transitions)
    interop.protocol.wrapping.wrap(env, params=None, *, max_steps=0, observation_space=None, \
        action_space=None)
    interop.protocol.wrapping.recognise(env, params=None, **choices)
    rollouts.Episode(obs, action, reward, done, terminated, truncated, info, extras)

    testing.check_env(env, *, num_steps=100, seed=0, gradients=False, waive=None)
    testing.report_env(env, *, num_steps=100, seed=0, gradients=False, waive=None)
    testing.check_batched_env(batched_env, *, num_steps=50, seed=0, waive=None)
    testing.report_batched_env(batched_env, *, num_steps=50, seed=0, waive=None)
    testing.match_env(env, reference, inject=None, *, extract=None, act=None, states=None, \
policy=None, n_steps=40000, n_resets=2000, rng=None)
    testing.Finding(rule, where, expected, got, fix)
    testing.Report(subject, findings, kept, skipped, notes=(), waived=FACTORY)
    testing.Report.raise_if_any()
    testing.ConformanceError(report)
    testing.CountingEnv(config=None)
    testing.ImageEnv(config=None)
    testing.MaskedEnv(config=None)
    testing.NestedEnv(config=None)
    testing.RingWorld(n_agents=6, size=8)

    interop.PeerConfig(max_steps=0, id="", params=None, options=FACTORY)
    interop.gymnasium_spaces.to_space(space)
    interop.gymnasium_spaces.from_space(space)
    interop.out.gymnasium.to_gymnasium(env, *, render_mode=None)
    interop.out.gymnasium_vec.to_gymnasium_vec(batched_env)
    interop.out.gymnax.to_gymnax(env, *, version=0)
    interop.out.gymnax.ToGymnax.reset(key, params=None)
    interop.out.gymnax.ToGymnax.step(key, state, action, params=None)
    interop.out.gymnax.ToGymnax.reset_env(key, params=None)
    interop.out.gymnax.ToGymnax.step_env(key, state, action, params=None)
    interop.out.gymnax.ToGymnax.observation_space(params=None)
    interop.out.gymnax.ToGymnax.action_space(params=None)
"""

LINES = [line.strip() for line in SIGNATURES.splitlines() if line.strip()]
FACTORY = object()  # the default of a dataclass field with a `default_factory`
PROPERTIES = {
    "env.JaxEnv": "observation_space action_space agents config name unwrapped traceable",
    "spaces.Space": "size",
    "batched_env.BatchedEnv": "n_slots name single_observation_space single_action_space "
    "observation_space action_space traceable",
    "vec_env.VecEnv": "n_slots name config single_observation_space single_action_space "
    "observation_space action_space",
    "multi_env.MultiEnv": "num_envs envs observation_spaces action_spaces observation_shapes "
    "action_shapes observation_sizes action_sizes observation_dtypes action_dtypes class_groups "
    "env_keys",
    "multi_vec_env.MultiVecEnv": "num_envs total_envs vec_envs envs slots_per_env "
    "observation_spaces action_spaces single_observation_spaces single_action_spaces "
    "single_observation_shapes single_action_shapes single_observation_sizes single_action_sizes "
    "single_observation_dtypes single_action_dtypes class_groups env_keys",
    "suite.EnvSuite": "envs n_envs",
    "suite.EnvSet": "n_envs",
}


@pytest.mark.parametrize("home", HOMES)
def test_every_name_is_in_its_module_and_at_the_top_level(home: str) -> None:
    module = importlib.import_module(f"envrax.{home}")
    for name in HOMES[home].split():
        found = getattr(module, name)
        if home not in ("testing", "multi_agent") and name not in ("vector", "ShardedEnv"):
            assert name in envrax.__all__ and getattr(envrax, name) is found


def test_every_name_that_is_listed_exists() -> None:
    assert {"DEFAULT_CACHE_DIR", "__version__", "spaces", "wrappers"} <= {*envrax.__all__}
    assert [name for name in envrax.__all__ if not hasattr(envrax, name)] == []


@pytest.mark.parametrize(
    "module",
    [
        envrax,
        envrax.wrappers,
        envrax.wrappers.vector,
        envrax.spaces,
        envrax.multi_agent,
        envrax.rollouts,
        envrax.autoreset,
        envrax.testing,
    ],
    ids=lambda module: module.__name__,
)
def test_public_classes_and_functions_are_defined_in_public_modules(module: Any) -> None:
    public = [getattr(module, name) for name in module.__all__]
    found = [x for x in public if inspect.isclass(x) or inspect.isfunction(x)]
    assert found
    hidden = [x for x in found if any(p.startswith("_") for p in x.__module__.split("."))]
    assert hidden == []


def resolve(path: str) -> Any:
    module, *names = path.split(".")
    found: Any = importlib.import_module(f"envrax.{module}")
    for name in names:
        found = getattr(found, name)
    return found


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    """Name, kind and default of each parameter, without `self`."""
    found = [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]
    return [p for p in found if p[0] != "self"]


def same_default(ours: Any, theirs: Any) -> bool:
    if theirs is FACTORY:
        return repr(ours) == "<factory>"
    if theirs in ("int32", "float32"):
        return np.dtype(ours) == theirs
    return type(ours) is type(theirs) and ours == theirs


@pytest.mark.parametrize("line", LINES)
def test_signature(line: str) -> None:
    path, arguments = line[:-1].split("(", 1)
    names = {"DEFAULT_CACHE_DIR": DEFAULT_CACHE_DIR, "FACTORY": FACTORY}
    expected = parameters(eval(f"lambda {arguments}: None", names))
    ours = parameters(resolve(path))
    added = [p for p in ours if p[0] not in {name for name, _, _ in expected}]
    promised = [p for p in ours if p not in added]
    assert [p[:2] for p in promised] == [p[:2] for p in expected]
    for (name, _, our_default), (_, _, default) in zip(promised, expected, strict=True):
        assert same_default(our_default, default), f"{name}={our_default!r}"
    for name, kind, default in added:
        assert kind is inspect.Parameter.KEYWORD_ONLY, f"{name} is more than the contract has"
        assert default is not inspect.Parameter.empty, f"{name} needs a default"


@pytest.mark.parametrize(
    ("path", "name"), [(path, name) for path, names in PROPERTIES.items() for name in names.split()]
)
def test_property(path: str, name: str) -> None:
    assert isinstance(inspect.getattr_static(resolve(path), name), property)


def test_every_public_method_of_these_classes_is_in_the_table() -> None:
    table = {line.split("(")[0] for line in LINES}
    for path in (
        "batched_env.BatchedEnv",
        "vec_env.VecEnv",
        "multi_env.MultiEnv",
        "multi_vec_env.MultiVecEnv",
        "suite.EnvSuite",
        "suite.EnvSet",
    ):
        members = inspect.getmembers_static(
            resolve(path), lambda x: inspect.isroutine(x) or isinstance(x, classmethod)
        )
        assert {f"{path}.{name}" for name, _ in members if not name.startswith("_")} <= table
