"""Mistakes that a checker has to find. The comment is the rule that says so."""

import jax
from user import BallConfig, BallEnv, BallState

from envrax import EnvConfig, GrayscaleObservation, JaxEnv, RecordVideo, ResizeObservation

rng = jax.random.key(0)
env = BallEnv()
obs, state = env.reset(rng)

BallState(rng=rng)  # reportCallIssue
BallState(rng=rng, step=rng, done=rng, pos=rng, colour=rng)  # reportCallIssue
BallState(rng=rng, step=rng, done=rng, pos="left")  # reportArgumentType
BallConfig(speed="fast")  # reportArgumentType
BallEnv(EnvConfig())  # reportArgumentType
BallEnv(3)  # reportArgumentType
env.step(rng, rng)  # reportArgumentType
print(state.colour)  # reportAttributeAccessIssue
print(env.config.colour)  # reportAttributeAccessIssue
ResizeObservation(3)  # reportArgumentType
ResizeObservation(env, hight=3)  # reportCallIssue
RecordVideo("videos")  # reportArgumentType
BallState(rng, rng, rng, rng)  # reportCallIssue
BallConfig(3)  # reportCallIssue
GrayscaleObservation()(3)  # reportArgumentType
JaxEnv[str, str, str, str]  # reportInvalidTypeArguments
