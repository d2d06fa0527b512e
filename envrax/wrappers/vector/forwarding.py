"""`ForwardingBatch`: the base class of batches that wrap another batch."""

from envrax.batched_env import BatchedEnv
from envrax.env import ActSpaceT, AnyEnv, ObsSpaceT


class ForwardingBatch(BatchedEnv[ObsSpaceT, ActSpaceT]):
    """Base class of batches that wrap another batch, `env`, with the same slots."""

    env: BatchedEnv[ObsSpaceT, ActSpaceT]

    @property
    def n_slots(self) -> int:
        return self.env.n_slots

    @property
    def name(self) -> str:
        return self.env.name

    @property
    def single_observation_space(self) -> ObsSpaceT:
        return self.env.single_observation_space

    @property
    def single_action_space(self) -> ActSpaceT:
        return self.env.single_action_space

    @property
    def agents(self) -> tuple[str, ...]:
        return self.env.agents

    @property
    def unwrapped(self) -> AnyEnv | None:
        """The base environment of every slot; None if the slots are not of a `JaxEnv`."""
        return getattr(self.env, "unwrapped", None)

    @property
    def can_render(self) -> bool:
        """Whether the wrapped batch can render its slots, as far as is known."""
        overrides_render = type(self.env).render_slot is not BatchedEnv.render_slot
        return bool(getattr(self.env, "can_render", overrides_render))

    def close(self) -> None:
        self.env.close()
