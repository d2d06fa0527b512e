"""The policies of `ppo.py`, and their network."""

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from envrax import Box, Discrete, MultiDiscrete


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


class MultiCategorical(NamedTuple):
    """A policy over a MultiDiscrete with independent entries, for slots along the first axis."""

    logits: jax.Array

    def sample(self, rng: jax.Array) -> jax.Array:
        return Categorical(self.logits).sample(rng)

    def mode(self) -> jax.Array:
        return Categorical(self.logits).mode()

    def log_prob(self, action: jax.Array) -> jax.Array:
        of_entries = Categorical(self.logits).log_prob(action)
        return jnp.sum(of_entries.reshape(len(action), -1), axis=1)

    def entropy(self) -> jax.Array:
        of_entries = Categorical(self.logits).entropy()
        return jnp.sum(of_entries.reshape(len(of_entries), -1), axis=1)


class Gaussian(NamedTuple):
    """A policy over real vectors with independent components."""

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


Policy = Categorical | MultiCategorical | Gaussian


class Conv(nn.Module):
    """A 3x3 convolution of stride 2, as a matrix product: its gradient is faster on a CPU."""

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
    """Two hidden layers. The last one is initialised to 0: the first policy is uniform."""

    hidden: int
    n_out: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for _ in range(2):
            x = nn.tanh(nn.Dense(self.hidden, kernel_init=nn.initializers.he_uniform())(x))
        return nn.Dense(self.n_out, kernel_init=nn.initializers.zeros)(x)


class ActorCritic(nn.Module):
    """
    A policy and a value for one observation: an array, or a tuple of arrays.

    Both share two convolutions for each image.
    """

    action_space: Discrete | MultiDiscrete | Box
    hidden: int

    @nn.compact
    def __call__(self, obs: Any, mask: jax.Array | None = None) -> tuple[Policy, jax.Array]:
        leaves = jax.tree.leaves(obs)
        parts = [Conv(32)(Conv(16)(x)).ravel() if x.ndim == 3 else x.ravel() for x in leaves]
        x, space = jnp.concatenate(parts), self.action_space
        value = MLP(self.hidden, 1, name="critic")(x)[0]
        if isinstance(space, Box):
            mean = MLP(self.hidden, space.size, name="actor")(x)
            log_std = self.param("log_std", nn.initializers.zeros, mean.shape, mean.dtype)
            return Gaussian(mean, log_std), value
        n = np.asarray(space.n if isinstance(space, Discrete) else space.nvec)
        logits = MLP(self.hidden, n.size * n.max(), name="actor")(x).reshape(*n.shape, -1)
        logits = legal(logits, mask, np.arange(n.max()) < n[..., None])
        kind = Categorical if isinstance(space, Discrete) else MultiCategorical
        return kind(logits), value


def legal(logits: jax.Array, mask: jax.Array | None, exist: np.ndarray) -> jax.Array:
    """Logits of a policy that chooses what is legal, or where there is no mask, what exists."""
    if mask is None and exist.all():
        return logits
    # Not -inf: entropies and gradients would be NaN.
    return jnp.where(exist if mask is None else mask, logits, -1e9)
