"""Policies as functions of their parameters.

MAML differentiates through a change of parameters, so a policy here is read as a function of two arguments,
pi(observation; theta): the module holds the initial theta, and ``policy.apply(params, observations)``
evaluates it anywhere else. It answers with the *parameters of a distribution* over actions, and what one
can do with those (log-probabilities, KL, curvature, sampling) is written next to them.

A parameter set is a dict of named tensors (a task's own set), or the same dict with a leading task axis on
every tensor (one set per task), or one flat vector (what the optimiser works on).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

Params = dict[str, Tensor]

LOG_STD_MIN, LOG_STD_MAX = math.log(1e-6), math.log(10.0)


class Normal(NamedTuple):
    """Independent Gaussians, one per action dimension."""

    mean: Tensor  # (..., A)
    log_std: Tensor  # (..., A)

    def log_prob(self, actions: Tensor) -> Tensor:
        """log pi(a), summed over the action dimensions: (...)."""
        z = (actions - self.mean) * torch.exp(-self.log_std)
        return (-0.5 * z * z - self.log_std - 0.5 * math.log(2 * math.pi)).sum(-1)

    def kl(self, new: Normal) -> Tensor:
        """KL(self || new), summed over the action dimensions: (...)."""
        variance_ratio = torch.exp(2 * (self.log_std - new.log_std))
        z = (self.mean - new.mean) * torch.exp(-new.log_std)
        return (new.log_std - self.log_std + 0.5 * (variance_ratio + z * z - 1)).sum(-1)

    def curvature(self, tangent: Normal) -> Normal:
        """The Hessian of ``kl(new)`` in new's parameters, at new = self, times ``tangent``.

        It is the Fisher information: 1/sigma² for the mean, 2 for log sigma, and nothing between them.
        """
        return Normal(tangent.mean * torch.exp(-2 * self.log_std), 2 * tangent.log_std)

    def sample(self, noise: Tensor) -> Tensor:
        """An action from standard normal ``noise`` (..., A)."""
        return self.mean + torch.exp(self.log_std) * noise


class Categorical(NamedTuple):
    """A distribution over A actions, by its unnormalised log-probabilities."""

    logits: Tensor  # (..., A)

    def log_prob(self, actions: Tensor) -> Tensor:
        """log pi(a) of integer ``actions`` (...): (...)."""
        return self.logits.log_softmax(-1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def kl(self, new: Categorical) -> Tensor:
        """KL(self || new): (...)."""
        old_log, new_log = self.logits.log_softmax(-1), new.logits.log_softmax(-1)
        return (old_log.exp() * (old_log - new_log)).sum(-1)

    def curvature(self, tangent: Categorical) -> Categorical:
        """The Hessian of ``kl(new)`` in new's logits, at new = self, times ``tangent``: (diag p - p pᵀ) u."""
        p, u = self.logits.softmax(-1), tangent.logits
        return Categorical(p * (u - (p * u).sum(-1, keepdim=True)))

    def sample(self, noise: Tensor) -> Tensor:
        """An action from uniform ``noise`` (...) in [0, 1): the first with a larger cumulative sum."""
        cumulative = self.logits.softmax(-1).cumsum(-1)
        exceeded = (cumulative <= noise.unsqueeze(-1)).sum(-1)
        return exceeded.clamp(max=self.logits.shape[-1] - 1)  # rounding may leave the last sum just below 1


Distribution = Normal | Categorical


class MLPPolicy(nn.Module):
    """A fully connected network from observations (..., D) to the parameters of a distribution.

    Args:
        obs_dim: D.
        out_dim: size of the output layer.
        hidden_sizes: units of each hidden layer; empty for a linear policy.
        nonlinearity: "tanh" or "relu".
        generator: the stream for the initial weights. Weights are Xavier-uniform, biases zero, and the last
            layer's weights a hundred times smaller: a random preference would first have to be unlearnt.
    """

    NONLINEARITIES = {"tanh": torch.tanh, "relu": torch.relu}  # noqa: RUF012

    def __init__(
        self,
        obs_dim: int,
        out_dim: int,
        hidden_sizes: Sequence[int] = (100, 100),
        nonlinearity: str = "tanh",
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        if nonlinearity not in self.NONLINEARITIES:
            names = sorted(self.NONLINEARITIES)
            raise ValueError(f"nonlinearity must be one of {names}, got {nonlinearity!r}")
        self.nonlinearity = self.NONLINEARITIES[nonlinearity]
        sizes = [obs_dim, *hidden_sizes, out_dim]
        self.layers = nn.ModuleList(
            nn.utils.skip_init(nn.Linear, n_in, n_out) for n_in, n_out in pairwise(sizes)
        )
        for layer in self.layers:
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            nn.init.zeros_(layer.bias)
        with torch.no_grad():
            self.layers[-1].weight.mul_(0.01)  # prefer no action before anything has been learnt

    def network(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = self.nonlinearity(affine(layer, x))
        return affine(self.layers[-1], x)

    def params(self) -> Params:
        """theta, the initial parameters, detached from any graph."""
        return {name: parameter.detach() for name, parameter in self.named_parameters()}

    def apply(self, params: Params, observations: Tensor) -> Distribution:
        """pi(. | observations; params): the policy at other parameters than its own."""
        return functional_call(self, params, (observations,))


class NormalMLPPolicy(MLPPolicy):
    """A Gaussian policy: the network gives the mean; the log standard deviation is a parameter of its own.

    ``log_std`` does not depend on the observation, is adapted like every other parameter, and is kept
    within [log 1e-6, log 10] when it is used.
    """

    def __init__(self, obs_dim: int, action_dim: int, *, init_std: float = 1.0, **network):
        if not 0 < init_std < 10:
            raise ValueError(f"init_std must lie between 0 and 10, got {init_std}")
        super().__init__(obs_dim, action_dim, **network)
        self.action_dim = action_dim
        self.log_std = nn.Parameter(torch.full((action_dim,), math.log(init_std)))

    def forward(self, observations: Tensor) -> Normal:
        mean = self.network(observations)  # (..., A)
        log_std = self.log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)
        return Normal(mean, log_std.expand_as(mean))

    def draw_noise(self, rng: np.random.Generator, steps: int) -> np.ndarray:
        """What ``Normal.sample`` needs for ``steps`` actions: (steps, A)."""
        return rng.standard_normal((steps, self.action_dim))


class CategoricalMLPPolicy(MLPPolicy):
    """A policy over a finite set of actions: the network gives the logits."""

    def __init__(self, obs_dim: int, num_actions: int, **network):
        super().__init__(obs_dim, num_actions, **network)

    def forward(self, observations: Tensor) -> Categorical:
        return Categorical(self.network(observations))

    def draw_noise(self, rng: np.random.Generator, steps: int) -> np.ndarray:
        """What ``Categorical.sample`` needs for ``steps`` actions: (steps,)."""
        return rng.random(steps)


def affine(layer: nn.Linear, x: Tensor) -> Tensor:
    """``layer(x)``, in a form whose derivatives under ``vmap`` keep rows contiguous, and so run faster."""
    return torch.einsum("...i,oi->...o", x, layer.weight) + layer.bias


def flatten(params: Params) -> Tensor:
    """One vector (P,) of all parameters, in the order of the dict."""
    return torch.cat([tensor.reshape(-1) for tensor in params.values()])


def unflatten(vector: Tensor, like: Params) -> Params:
    """The inverse of ``flatten``: ``vector`` (P,) cut into tensors with the names and shapes of ``like``."""
    pieces = vector.split([tensor.numel() for tensor in like.values()])
    return {name: piece.view_as(tensor) for (name, tensor), piece in zip(like.items(), pieces, strict=True)}
