"""The rules for a `JaxEnv`, in the order in which they are checked."""

from envrax.testing import form_rules as form
from envrax.testing import jax_rules as pure
from envrax.testing import key_rules as keys
from envrax.testing.rules import Rule

_RUNS = ("step_returns",)
_PURE = ("traces_under_jit", "inputs_are_left_alone", "same_key_same_episode")

# A new rule is a function in one of these modules, and a row here.
ENV_RULES = (
    Rule(form.spaces_are_legal),
    Rule(form.reset_returns),
    Rule(form.step_returns, ("reset_returns", "spaces_are_legal")),
    Rule(form.info_is_fixed, _RUNS),
    Rule(pure.inputs_are_left_alone, _RUNS),
    Rule(keys.same_key_same_episode, ("inputs_are_left_alone",)),
    Rule(pure.traces_under_jit, ("info_is_fixed",), traced=True),
    Rule(form.observations_are_in_the_space, _RUNS),
    Rule(form.reset_and_step_agree, ("observations_are_in_the_space",)),
    Rule(form.done_is_a_flag, _RUNS),
    Rule(form.step_counts, _RUNS),
    Rule(form.reward_is_a_float, _RUNS),
    Rule(form.ends_have_reasons, ("info_is_fixed", "done_is_a_flag")),
    Rule(form.render_is_an_image, _RUNS),
    Rule(keys.key_moves_on, ("same_key_same_episode",)),
    Rule(keys.keys_are_used_once, ("traces_under_jit", "key_moves_on"), traced=True),
    Rule(keys.both_kinds_of_keys, ("same_key_same_episode", "key_moves_on")),
    Rule(pure.no_tracer_leaks, _PURE, traced=True),
    Rule(pure.jit_agrees, _PURE, traced=True),
    Rule(pure.compiles_once, ("jit_agrees", "reset_and_step_agree"), traced=True),
    Rule(pure.vmap_agrees, ("jit_agrees", "no_tracer_leaks"), traced=True),
    Rule(pure.scan_agrees, ("compiles_once", "no_tracer_leaks"), traced=True),
    Rule(pure.gradients_are_finite, ("jit_agrees",), traced=True),
)
