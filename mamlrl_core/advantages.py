"""From rewards to advantages: how much better was this action than what usually follows?

Written for one task, arrays (T, B); more leading axes work as well. Statistics run over the valid steps of
a task, pooled over its episodes: a long episode counts for more than a short one, and padding for nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .episodes import replace_padding


def weighted_mean(x: Tensor, mask: Tensor) -> Tensor:
    """The mean of ``x`` (..., T, B) over the valid steps: (...)."""
    return replace_padding(x, mask).sum((-2, -1)) / mask.sum((-2, -1))


def weighted_normalize(
    x: Tensor, mask: Tensor, epsilon: float = 1e-8, computed_from: Tensor | None = None
) -> Tensor:
    """(x - mean) / (std + epsilon) over the valid steps, zero in the padding: (..., T, B).

    Where all valid values agree but for rounding there is nothing to learn from, and dividing by that
    rounding would amplify it to size one: the result is then zero. Rounding is judged by the largest valid
    value of ``x``, or of what it was ``computed_from``: a difference of large numbers inherits theirs.
    """
    x = replace_padding(x, mask)
    centred = replace_padding(x - weighted_mean(x, mask)[..., None, None], mask)
    std = weighted_mean(centred * centred, mask).sqrt()[..., None, None]
    origin = x if computed_from is None else replace_padding(computed_from, mask)
    constant = std < 1e-6 * origin.abs().amax((-2, -1), keepdim=True)
    return torch.where(constant, torch.zeros_like(x), centred / (std + epsilon))


def discounted_returns(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    """R_t = r_t + gamma R_{t+1}, zero after the end of the episode: (..., T, B)."""
    return discounted_sum(replace_padding(rewards, mask), gamma)


def gae(rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, gae_lambda: float) -> Tensor:
    """Generalised advantage estimates (Schulman et al. 2016, equation 16): (..., T, B).

    A_t = sum_l (gamma lambda)^l delta_{t+l} with delta_t = r_t + gamma V(s_{t+1}) - V(s_t). After the last
    step of an episode V is zero, whether the episode died or its time was up: the objective has a finite
    horizon, and the baseline sees the time.
    """
    values = replace_padding(values, mask)
    next_values = torch.cat([values[..., 1:, :], torch.zeros_like(values[..., :1, :])], dim=-2)
    deltas = replace_padding(rewards, mask) + gamma * next_values - values
    return discounted_sum(deltas, gamma * gae_lambda)


def discounted_sum(x: Tensor, discount: float) -> Tensor:
    """y_t = x_t + discount · y_{t+1} along the time axis, by one pass from the end: (..., T, B)."""
    total = torch.zeros_like(x[..., 0, :])
    sums = []
    for step in reversed(x.unbind(-2)):
        total = step + discount * total
        sums.append(total)
    return torch.stack(sums[::-1], dim=-2)
