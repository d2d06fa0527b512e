"""Between an environment and `ppo.py`: the wrappers it needs, the policy, the network."""

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

import envrax
from envrax import Box, Discrete


class VectorAction(envrax.ActionWrapper[Any, Box, Any, Any]):
    """
    Take any real vector as action, and clip it to the bounds of the Box beneath.

    Where both bounds are finite they are at -1 and 1, so that a policy need not know their scale.
    """

    @property
    def action_space(self) -> Box:
        return Box(-np.inf, np.inf, (self.env.action_space.size,))

    def action(self, action: jax.Array) -> jax.Array:
        space: Box = self.env.action_space
        low, high = (np.broadcast_to(bound, space.shape) for bound in (space.low, space.high))
        bounded = np.isfinite(low) & np.isfinite(high)
        left = np.where(bounded, low, -1).astype(np.float32)
        right = np.where(bounded, high, 1).astype(np.float32)
        wanted = left / 2 + right / 2 + (right / 2 - left / 2) * action.reshape(space.shape)
        return jnp.clip(wanted.astype(space.dtype), low, high)


def wrappers_for(name: str) -> list[Any]:
    """
    What has to stand between a registered environment and an `ActorCritic`, the innermost first.

    Raises
    ------
    TypeError
        If there is no network here for its observations or actions.
    """
    env = envrax.make(name, jit_compile=False)
    seen, done = env.observation_space, env.action_space
    if not (isinstance(seen, Box) and isinstance(done, Discrete | Box)):
        raise TypeError(
            f"ppo: expected observations in a Box and actions in a Discrete or a Box; got {seen} "
            f"and {done} from {name}. Wrap it, and register the wrapped class."
        )
    wrappers: list[Any] = [envrax.RecordEpisodeStatistics]  # counts what the others do not change
    if seen.dtype == jnp.uint8:
        wrappers.append(envrax.NormalizeObservation)
    if isinstance(done, Box):
        wrappers.append(VectorAction)
    return wrappers


class Categorical(NamedTuple):
    """A policy over a Discrete space."""

    logits: jax.Array

    def sample(self, rng: jax.Array) -> jax.Array:
        return jax.random.categorical(rng, self.logits)

    def mode(self) -> jax.Array:
        return jnp.argmax(self.logits, axis=-1)

    def log_prob(self, action: jax.Array) -> jax.Array:
        log_probs = jax.nn.log_softmax(self.logits)
        return jnp.take_along_axis(log_probs, action[..., None], axis=-1)[..., 0]

    def entropy(self) -> jax.Array:
        log_probs = jax.nn.log_softmax(self.logits)
        return -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)


class Gaussian(NamedTuple):
    """A policy over real vectors, whose components are independent."""

    mean: jax.Array
    log_std: jax.Array

    def sample(self, rng: jax.Array) -> jax.Array:
        noise = jax.random.normal(rng, self.mean.shape, self.mean.dtype)
        return self.mean + jnp.exp(self.log_std) * noise

    def mode(self) -> jax.Array:
        return self.mean

    def log_prob(self, action: jax.Array) -> jax.Array:
        std = jnp.exp(self.log_std)
        return jnp.sum(jax.scipy.stats.norm.logpdf(action, self.mean, std), axis=-1)

    def entropy(self) -> jax.Array:
        return jnp.sum(self.log_std + 0.5 * np.log(2 * np.pi * np.e), axis=-1)


Policy = Categorical | Gaussian


class Conv(nn.Module):
    """A 3x3 convolution of stride 2, as a matrix product: on a CPU its gradient is far faster."""

    features: int

    @nn.compact
    def __call__(self, image: jax.Array) -> jax.Array:
        height, width, _ = image.shape
        padded = jnp.pad(image, ((1, 1), (1, 1), (0, 0)))
        patches = [
            padded[y : y + height : 2, x : x + width : 2] for y in range(3) for x in range(3)
        ]
        return nn.relu(nn.Dense(self.features)(jnp.concatenate(patches, axis=-1)))


class MLP(nn.Module):
    """Two hidden layers. Before training every output is 0: a fair policy, and no opinion."""

    hidden: int
    n_out: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for _ in range(2):
            x = nn.tanh(nn.Dense(self.hidden, kernel_init=nn.initializers.he_uniform())(x))
        return nn.Dense(self.n_out, kernel_init=nn.initializers.zeros)(x)


class ActorCritic(nn.Module):
    """From one observation to a policy and a value; two convolutions look at an image for both."""

    action_space: Discrete | Box
    hidden: int

    @nn.compact
    def __call__(self, obs: jax.Array) -> tuple[Policy, jax.Array]:
        x = Conv(32)(Conv(16)(obs)).ravel() if obs.ndim == 3 else obs.ravel()
        value = MLP(self.hidden, 1, name="critic")(x)[0]
        if isinstance(self.action_space, Discrete):
            return Categorical(MLP(self.hidden, self.action_space.n, name="actor")(x)), value
        mean = MLP(self.hidden, self.action_space.size, name="actor")(x)
        log_std = self.param("log_std", nn.initializers.zeros, mean.shape, mean.dtype)
        return Gaussian(mean, log_std), value
