"""`ForwardingBatch`: the properties that a batch around another batch forwards."""

from envrax.batched_env import BatchedEnv
from envrax.env import ActSpaceT, AnyEnv, ObsSpaceT


class ForwardingBatch(BatchedEnv[ObsSpaceT, ActSpaceT]):
    """The base of batches around another batch, `env`, with the same slots."""

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
        """The innermost environment of every slot; None where slots hold no `JaxEnv`."""
        return getattr(self.env, "unwrapped", None)

    @property
    def can_render(self) -> bool:
        """Whether the wrapped batch renders its slots, as far as that is known."""
        drawn = type(self.env).render_slot is not BatchedEnv.render_slot
        return bool(getattr(self.env, "can_render", drawn))

    def close(self) -> None:
        self.env.close()
