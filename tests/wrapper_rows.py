"""Every wrapper of the package, and the kinds of env that it takes: one row each."""

from collections.abc import Callable
from typing import Any

from fakes import ALL, CoinEnv, NestedEnv, PixelEnv, VectorEnv

from envrax import (
    Box,
    ClipReward,
    Dict,
    EpisodeDiscount,
    ExpandDims,
    FrameStackObservation,
    GrayscaleObservation,
    JitWrapper,
    NanGuard,
    NormalizeObservation,
    ObservationWrapper,
    RecordEpisodeStatistics,
    RecordVideo,
    ResizeObservation,
    Wrapper,
)

Wrap = Callable[[Any], Any]


class ImageOnly(ObservationWrapper[Box, Any, Any, Any]):
    @property
    def observation_space(self) -> Box:
        inner: Any = self.env.observation_space
        return inner["image"]

    def observation(self, obs: dict[str, Any]) -> Any:
        return obs["image"]


def pick(*factories: Wrap) -> Wrap:
    """Several wrappers as one, the innermost first."""

    def wrap(env: Any) -> Any:
        if isinstance(env.observation_space, Dict):
            env = ImageOnly(env)
        for factory in factories:
            env = factory(env)
        return env

    return wrap


ROWS: dict[str, tuple[Wrap, list[Any]]] = {
    "Wrapper": (Wrapper, ALL),
    "JitWrapper": (JitWrapper(pre_warm=False), [NestedEnv, CoinEnv, VectorEnv, PixelEnv]),
    "GrayscaleObservation": (GrayscaleObservation, [PixelEnv]),
    "ResizeObservation": (pick(ResizeObservation(h=7, w=5)), [PixelEnv, NestedEnv]),
    "NormalizeObservation": (pick(NormalizeObservation), [PixelEnv, NestedEnv]),
    "FrameStackObservation": (pick(FrameStackObservation(n_stack=3)), ALL),
    "ClipReward": (ClipReward, [CoinEnv, *ALL[:3]]),
    "NanGuard": (NanGuard, [VectorEnv, CoinEnv, PixelEnv, NestedEnv]),
    "ExpandDims": (ExpandDims, ALL),
    "EpisodeDiscount": (EpisodeDiscount, [CoinEnv, *ALL[:3]]),
    "RecordEpisodeStatistics": (RecordEpisodeStatistics, [CoinEnv, *ALL[:3]]),
    "RecordVideo": (RecordVideo(episode_trigger=lambda _: False), [PixelEnv]),
    "images": (
        pick(
            GrayscaleObservation,
            ResizeObservation(h=6, w=6),
            FrameStackObservation(n_stack=2),
            NormalizeObservation,
            ClipReward,
        ),
        [PixelEnv],
    ),
    "episodes": (
        pick(
            NanGuard,
            RecordEpisodeStatistics,
            FrameStackObservation(n_stack=2),
            JitWrapper(pre_warm=False),
            RecordEpisodeStatistics,
            EpisodeDiscount,
            ExpandDims,
        ),
        [CoinEnv, VectorEnv, PixelEnv, NestedEnv],
    ),
}
