# pyright: basic
"""An adapter to fill in, for an object that is not understood."""

from typing import Any

PAGE = "Writing an adapter"


def adapter_of(reading: Any) -> str:
    """The lines of an adapter, with what is known of the object."""
    reset = reading.reset if reading.reset.name else "reset(rng)"
    step = reading.step if reading.step.name else "step(rng, inner, action)"

    def call(function: Any) -> str:
        text = str(function).replace("key", "rng").replace("state", "inner")
        return f"self.peer.{text}"

    return (
        f'Or write an adapter (the page "{PAGE}"):\n\n'
        "class MyEnv(envrax.interop.PeerEnv):\n"
        '    library = "mine"\n\n'
        "    def build(self): return ...  # the object\n\n"
        "    def spaces(self): return ..., ...  # of observations and of actions\n\n"
        "    def begin(self, params, rng):\n"
        f"        ... = {call(reset)}\n"
        "        return PeerReset(obs, inner)\n\n"
        "    def advance(self, params, inner, action, rng):\n"
        f"        ... = {call(step)}\n"
        "        return PeerStep(obs, inner, reward, terminated, truncated, info)"
    )
