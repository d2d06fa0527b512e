"""The rules of both checks, in the order of checking."""

from typing import Any, cast

from envrax.env import JaxEnv
from envrax.episodic_env import EpisodicEnv
from envrax.testing.rules import (
    batches,
    episodes,
    keys,
    masks,
    purity,
    returns,
    slots,
    spaces,
    transforms,
    worlds,
)
from envrax.testing.rules.base import Rule

_STEPS = ("step_returns",)
_EPISODES = ("reset_after_begins_an_episode",)
_PURE = ("traces_under_jit", "inputs_are_left_alone", "same_key_same_episode")
_BASE = cast(Any, (EpisodicEnv.reset, EpisodicEnv.step, JaxEnv.reset_after))
_KEYS = ("draws_depend_on_the_key", "keys_are_used_once", "key_moves_on")

# To add a rule, write a function in one of these modules and add a row here. The second argument
# names the rules that must hold first.
ENV_RULES = (
    Rule(spaces.spaces_are_legal, lists=True),
    Rule(purity.no_tracer_leaks, ("spaces_are_legal",), traced=True),
    Rule(returns.reset_returns),
    Rule(returns.step_returns, ("reset_returns", "spaces_are_legal")),
    Rule(returns.reset_after_begins_an_episode, _STEPS),
    Rule(returns.info_is_fixed, _EPISODES, lists=True),
    Rule(purity.nothing_is_kept_on_the_host, _EPISODES, traced=True),
    Rule(purity.inputs_are_left_alone, _EPISODES),
    Rule(purity.same_key_same_episode, ("inputs_are_left_alone",)),
    Rule(transforms.traces_under_jit, ("info_is_fixed",), traced=True),
    Rule(masks.masks_fit_the_space, _EPISODES),
    Rule(spaces.observations_are_in_the_space, _EPISODES),
    Rule(returns.reset_and_step_agree, ("observations_are_in_the_space",), lists=True),
    Rule(
        returns.observe_agrees,
        ("traces_under_jit", "observations_are_in_the_space"),
        traced=True,
        kept_by=_BASE,
    ),
    Rule(episodes.done_is_a_flag, _EPISODES),
    Rule(episodes.step_counts, (*_EPISODES, "done_is_a_flag")),
    Rule(episodes.observed_counters_count, ("reset_and_step_agree", "done_is_a_flag")),
    Rule(episodes.reward_is_a_float, _EPISODES),
    Rule(episodes.ends_have_reasons, ("info_is_fixed", "done_is_a_flag"), kept_by=_BASE),
    Rule(episodes.limits_have_reasons, ("info_is_fixed", "done_is_a_flag"), kept_by=_BASE),
    Rule(episodes.limit_is_in_the_config, ("info_is_fixed", "step_counts"), traced=True),
    Rule(episodes.statistics_see_each_end, ("info_is_fixed", "done_is_a_flag")),
    Rule(returns.render_is_an_image, _EPISODES),
    Rule(keys.key_moves_on, ("same_key_same_episode",)),
    Rule(keys.draws_depend_on_the_key, ("traces_under_jit",), traced=True, lists=True),
    Rule(keys.keys_are_used_once, ("traces_under_jit",), traced=True, lists=True),
    Rule(keys.calls_share_no_key, _KEYS, traced=True),
    Rule(keys.both_kinds_of_keys, ("same_key_same_episode", "key_moves_on")),
    Rule(transforms.jit_agrees, _PURE, traced=True),
    Rule(transforms.compiles_once, ("jit_agrees", "reset_and_step_agree"), traced=True, lists=True),
    Rule(transforms.vmap_agrees, ("jit_agrees",), traced=True),
    Rule(transforms.scan_agrees, ("compiles_once",), traced=True),
    Rule(transforms.gradients_are_finite, ("jit_agrees",), traced=True, lists=True),
)

# For a world of several agents, in addition to `ENV_RULES`.
WORLD_RULES = (
    Rule(worlds.agents_are_named, ("spaces_are_legal",)),
    Rule(worlds.someone_is_active, (*_EPISODES, "agents_are_named")),
    Rule(worlds.inactive_actions_do_nothing, ("someone_is_active", "same_key_same_episode")),
    Rule(worlds.ended_agents_stay, ("info_is_fixed", "someone_is_active")),
)

_RESULTS = (
    "infos_have_slots",
    "observations_are_in_the_space",
    "reset_and_step_agree",
    "dones_are_flags",
    "reward_is_a_float",
)

BATCHED_RULES = (
    Rule(spaces.batch_spaces_are_legal, lists=True),
    Rule(purity.no_tracer_leaks, ("batch_spaces_are_legal",), traced=True),
    Rule(returns.reset_returns),
    Rule(returns.step_returns, ("reset_returns", "batch_spaces_are_legal")),
    Rule(returns.info_is_fixed, _STEPS, lists=True),
    Rule(batches.infos_have_slots, ("info_is_fixed",), lists=True),
    Rule(purity.nothing_is_kept_on_the_host, _STEPS, traced=True),
    Rule(purity.inputs_are_left_alone, _STEPS),
    Rule(purity.same_key_same_episode, ("inputs_are_left_alone",), traced=True),
    Rule(transforms.traces_under_jit, ("info_is_fixed",), traced=True),
    Rule(masks.masks_fit_the_space, _STEPS),
    Rule(spaces.observations_are_in_the_space, _STEPS),
    Rule(returns.reset_and_step_agree, ("observations_are_in_the_space",), traced=True, lists=True),
    Rule(batches.dones_are_flags, _STEPS),
    Rule(episodes.reward_is_a_float, _STEPS),
    Rule(batches.final_obs_is_of_the_step, ("observations_are_in_the_space", "dones_are_flags")),
    Rule(batches.final_mask_is_of_the_step, ("masks_fit_the_space", "dones_are_flags")),
    Rule(batches.next_episode_begins_at_once, ("dones_are_flags",)),
    Rule(batches.render_slot_is_an_image, _STEPS),
    Rule(batches.slot_state_takes_an_index, _STEPS),
    Rule(keys.both_kinds_of_keys, ("same_key_same_episode",)),
    Rule(transforms.jit_agrees, _PURE, traced=True),
    Rule(transforms.compiles_once, ("jit_agrees", "reset_and_step_agree"), traced=True, lists=True),
    Rule(transforms.vmap_agrees, ("jit_agrees",), traced=True),
    Rule(transforms.scan_agrees, ("compiles_once",), traced=True),
    Rule(slots.slots_are_independent, (*_PURE, *_RESULTS)),
    Rule(slots.slots_step_like_one, ("slots_are_independent",)),
    Rule(slots.ended_slots_start_again, ("slots_step_like_one",)),
)
