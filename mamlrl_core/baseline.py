"""A linear baseline: what return does a state usually lead to, at this time of the episode?"""

from __future__ import annotations

import torch
from torch import Tensor

from .advantages import weighted_mean
from .episodes import BatchEpisodes, replace_padding


class LinearFeatureBaseline:
    """Least squares on a handful of features of the observation o and the time t.

    phi = [o, o², t', t'², t'³, 1] with t' = (t + 1) / 100, so F = 2 D + 4 (Duan et al. 2016, appendix). It
    is fitted to the returns of the very episodes that it will judge: quick, without memory, and one solve
    for all tasks.

    Args:
        ridge: the weight of the penalty on the coefficients that keeps the solve well posed.
    """

    MAX_GROWTH = 20  # factors of ten that the ridge may grow by

    def __init__(self, ridge: float = 1e-5):
        if not ridge > 0:
            raise ValueError(f"the ridge must be positive, got {ridge}")
        self.ridge = ridge

    def features(self, episodes: BatchEpisodes) -> Tensor:
        """phi of every step, in float64, zero in the padding: (N, T, B, F)."""
        o = episodes.observations.double()
        t = torch.arange(1, o.shape[-3] + 1, dtype=o.dtype, device=o.device) / 100  # (T,)
        t = t[:, None, None].expand(*o.shape[:-1], 1)
        return replace_padding(torch.cat([o, o**2, t, t**2, t**3, torch.ones_like(t)], dim=-1), episodes.mask)

    def fit(self, features: Tensor, returns: Tensor) -> Tensor:
        """Coefficients (N, F) that predict ``returns`` (N, T, B) from ``features`` (N, T, B, F), task by
        task.

        Both are zero in the padding and so add nothing to the normal equations. If these cannot be solved
        in finite numbers, the ridge grows by factors of ten until they can; a task whose data is not
        finite gets NaN.
        """
        phi = features.flatten(1, 2)  # (N, TB, F)
        y = returns.double().flatten(1, 2).unsqueeze(-1)  # (N, TB, 1)
        gram, moment = phi.mT @ phi, phi.mT @ y  # (N, F, F), (N, F, 1)
        identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
        coefficients = torch.full_like(moment, torch.nan)
        for power in range(self.MAX_GROWTH):
            solved, info = torch.linalg.solve_ex(gram + self.ridge * 10**power * identity, moment)
            unsolved = ~coefficients.isfinite().all(-2, keepdim=True)
            succeeded = (info == 0)[:, None, None] & solved.isfinite().all(-2, keepdim=True)
            coefficients = torch.where(unsolved & succeeded, solved, coefficients)
            if coefficients.isfinite().all():
                break
        return coefficients.squeeze(-1)

    def values(self, episodes: BatchEpisodes, returns: Tensor) -> Tensor:
        """The prediction at every step of ``episodes`` after a fit to their ``returns``: (N, T, B)."""
        features = self.features(episodes)
        coefficients = self.fit(features, returns)  # (N, F)
        return torch.einsum("ntbf,nf->ntb", features, coefficients).to(returns.dtype)


def explained_variance(values: Tensor, returns: Tensor, mask: Tensor) -> Tensor:
    """1 - var(returns - values) / var(returns) over the valid steps of a task: (...).

    1 is a perfect prediction, 0 no better than a constant.
    """

    def variance(x: Tensor) -> Tensor:
        return weighted_mean((x - weighted_mean(x, mask)[..., None, None]) ** 2, mask)

    return 1 - variance(returns - values) / variance(returns)
