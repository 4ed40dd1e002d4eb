"""MAML with a trust region: adapt to every task by policy gradient, then improve where adaptation starts
from.

Inner loop: theta'_i = theta - alpha grad L(theta; D_i), K times, on fresh episodes D_i of task i (Finn et
al. 2017). Outer loop: one step of TRPO (Schulman et al. 2015) on the mean over tasks of the surrogate loss
at theta'_i(theta), as a function of theta.

Functions of *one task* see episodes (T, B, ...) and are lifted over the N tasks by ``torch.func.vmap``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import grad, grad_and_value, vmap

from .advantages import discounted_returns, gae, weighted_mean, weighted_normalize
from .baseline import LinearFeatureBaseline, explained_variance
from .config import check_settings
from .episodes import BatchEpisodes
from .optimization import Linearization, Product, conjugate_gradient, line_search
from .policies import Distribution, MLPPolicy, Params, flatten, unflatten


class MetaBatch(NamedTuple):
    """The episodes of one meta-step: K batches to adapt on, one batch to judge the adapted policies by."""

    train: tuple[BatchEpisodes, ...]
    valid: BatchEpisodes

    def first_episodes(self, count: int) -> MetaBatch:
        """The same with only the first ``count`` episodes of every task."""
        return MetaBatch(tuple(d.first_episodes(count) for d in self.train), self.valid.first_episodes(count))


@dataclass
class StepReport:
    """What happened in one meta-step, and why."""

    accepted: bool = False
    reason: str = ""  # why the update was skipped; empty if it was not
    loss: float = float("nan")  # surrogate loss at theta
    gradient_norm: float = float("nan")
    cg_residual: float = float("nan")  # |g - H x| / |g| after conjugate gradient
    new_loss: float = float("nan")  # at the last trial of the line search, as are the following
    kl: float = float("nan")
    trials: int = 0
    step_norm: float = 0.0  # |theta_new - theta|, zero when skipped
    skipped: int = 0  # updates skipped so far, this one included
    log_std: float = float("nan")  # mean log standard deviation of a Gaussian policy, at theta
    explained_variance: float = float("nan")  # of the post-adaptation returns by their baseline


class MetaLearner:
    """MAML-TRPO around a policy, which it updates in place.

    Args:
        policy: holds theta.
        fast_lr: alpha, the step size of adaptation; or one for every step, of which the last repeats.
        gamma: the discount.
        gae_lambda: lambda of generalised advantage estimation (called tau in older code).
        first_order: hold the inner gradient constant in the outer derivatives.
        max_kl: the radius of the trust region, on the mean KL(old || new) of the adapted policies.
        cg_iterations: iterations of conjugate gradient.
        cg_damping: added to the curvature, as damping · identity.
        ls_max_steps: trials of the line search.
        ls_backtrack_ratio: how much shorter each trial is than the one before.
        curvature_fraction: the share of every task's episodes that the curvature is measured on. The
            gradient and the line search always see all of them.

    Raises:
        ValueError: for a setting that no training can use, with its name and value.
    """

    def __init__(
        self,
        policy: MLPPolicy,
        *,
        fast_lr: float | Sequence[float] = 0.1,
        gamma: float = 0.99,
        gae_lambda: float = 1.0,
        first_order: bool = False,
        max_kl: float = 0.01,
        cg_iterations: int = 10,
        cg_damping: float = 1e-5,
        ls_max_steps: int = 15,
        ls_backtrack_ratio: float = 0.8,
        curvature_fraction: float = 1.0,
    ):
        self.policy, self.baseline = policy, LinearFeatureBaseline()
        self.fast_lr = tuple(np.atleast_1d(fast_lr).tolist())
        self.gamma, self.gae_lambda, self.first_order = gamma, gae_lambda, first_order
        self.max_kl, self.curvature_fraction = max_kl, curvature_fraction
        self.cg_iterations, self.cg_damping = cg_iterations, cg_damping
        self.ls_max_steps, self.ls_backtrack_ratio = ls_max_steps, ls_backtrack_ratio
        check_settings(vars(self))
        self.skipped = 0  # updates skipped so far

    # ------------------------------------------------------------------------------------------ one task

    def inner_loss(self, params: Params, episodes: BatchEpisodes) -> Tensor:
        """REINFORCE with a baseline: the mean over valid steps of -log pi(a | s) · advantage. A scalar."""
        pi = self.policy.apply(params, episodes.observations)  # (T, B, ·)
        return weighted_mean(-pi.log_prob(episodes.actions) * episodes.advantages, episodes.mask)

    def inner_step(self, params: Params, episodes: BatchEpisodes, alpha: float, first_order: bool) -> Params:
        """One step of adaptation, theta' = theta - alpha grad L(theta; D) on the episodes D."""
        gradient = grad(self.inner_loss)(params, episodes)
        if first_order:
            gradient = {name: g.detach() for name, g in gradient.items()}
        return {name: p - alpha * gradient[name] for name, p in params.items()}

    def adapt(self, params: Params, train: Sequence[BatchEpisodes]) -> Params:
        """K steps of adaptation, one for each batch of episodes in ``train``."""
        for k, episodes in enumerate(train):
            params = self.inner_step(params, episodes, self.step_size(k), self.first_order)
        return params

    def step_size(self, k: int) -> float:
        """alpha of the k-th step of adaptation in training, k = 0, 1, ..."""
        return self.fast_lr[min(k, len(self.fast_lr) - 1)]

    # ----------------------------------------------------------------------------------------- all tasks

    @torch.no_grad()
    def adapt_all(self, episodes: BatchEpisodes, params: Params | None, alpha: float) -> Params:
        """One step of adaptation of every task, without a graph: each tensor gets a leading task axis.

        Start from ``params``, one set per task, or all from theta where it is None. A task whose new
        parameters are not finite keeps the old ones: a spoilt episode must not spoil the environment.
        """
        old, in_dim = (self.policy.params(), None) if params is None else (params, 0)
        step = partial(self.inner_step, alpha=alpha, first_order=True)
        new = vmap(step, in_dims=(in_dim, 0))(old, episodes)
        finite = torch.stack([tensor.flatten(1).isfinite().all(1) for tensor in new.values()]).all(0)  # (N,)
        return {
            name: torch.where(finite.view(-1, *[1] * (tensor.dim() - 1)), tensor, old[name])
            for name, tensor in new.items()
        }

    def adapted_policy(self, theta: Tensor, batch: MetaBatch) -> Distribution:
        """f(theta): what the adapted policies say about the episodes they are judged by, (N, T, B, ·)."""

        def one_task(params: Params, train: tuple[BatchEpisodes, ...], observations: Tensor) -> Distribution:
            return self.policy.apply(self.adapt(params, train), observations)

        params = unflatten(theta, self.policy.params())
        if not batch.train:  # K = 0: nothing depends on the task, one run over all observations will do
            return self.policy.apply(params, batch.valid.observations)
        return vmap(one_task, in_dims=(None, 0, 0))(params, batch.train, batch.valid.observations)

    def surrogate_loss(self, pi: Distribution, old_log_prob: Tensor, valid: BatchEpisodes) -> Tensor:
        """Minus the mean over tasks of the importance-weighted advantage. A scalar."""
        ratio = torch.exp(pi.log_prob(valid.actions) - old_log_prob)  # (N, T, B)
        return weighted_mean(-ratio * valid.advantages, valid.mask).mean()

    def kl_divergence(self, old: Distribution, new: Distribution, valid: BatchEpisodes) -> Tensor:
        """The mean over tasks of the mean KL(old || new) over valid steps. A scalar."""
        return weighted_mean(old.kl(new), valid.mask).mean()

    def hessian_vector_product(self, line: Linearization, valid: BatchEpisodes) -> Product:
        """v -> (Jᵀ M J + damping) v, the curvature of the mean KL in theta at the old parameters.

        J is the Jacobian of the adapted policies' distribution parameters, through the adaptation; M is
        the Hessian of the mean KL in those parameters. No term is missing: at old = new the KL's gradient
        is zero.
        """
        mask = valid.mask.to(valid.advantages.dtype)
        weight = mask / (mask.sum((-2, -1), keepdim=True) * len(mask))  # (N, T, B), sums to 1

        def product(v: Tensor) -> Tensor:
            curved = line.value.curvature(line.push_forward(v))  # (N, T, B, ·)
            weighted = type(curved)(*(weight.unsqueeze(-1) * component for component in curved))
            return line.pull_back(weighted) + self.cg_damping * v

        return product

    # --------------------------------------------------------------------------------------- experience

    def estimate_advantages(self, episodes: BatchEpisodes) -> BatchEpisodes:
        """``episodes`` with normalised advantages, from a baseline fitted to these very episodes."""
        returns = discounted_returns(episodes.rewards, episodes.mask, self.gamma)
        values = self.baseline.values(episodes, returns)
        advantages = gae(episodes.rewards, values, episodes.mask, self.gamma, self.gae_lambda)
        advantages = weighted_normalize(advantages, episodes.mask, computed_from=returns)
        return episodes._replace(advantages=advantages)

    def sample(self, play: Callable[[Params | None, int], BatchEpisodes], inner_steps: int = 1) -> MetaBatch:
        """Play, adapt, play again with the adapted policies: the data of one meta-step.

        Args:
            play: (parameters of every task or None for theta, phase k) -> episodes.
            inner_steps: K.
        """
        params, train = None, []
        for phase in range(inner_steps):
            train.append(self.estimate_advantages(play(params, phase)))
            params = self.adapt_all(train[-1], params, self.step_size(phase))
        return MetaBatch(tuple(train), self.estimate_advantages(play(params, inner_steps)))

    # -------------------------------------------------------------------------------------- the outer step

    def step(self, batch: MetaBatch) -> StepReport:
        """One TRPO step on theta. An update that cannot be trusted is skipped, theta untouched to the bit."""
        report = self.describe(batch)
        theta = flatten(self.policy.params())
        update, report.reason = self.trust_region_step(theta, batch, report)
        report.accepted = update is not None
        if update is None:
            self.skipped += 1
        else:
            report.step_norm = float((update - theta).norm())
            with torch.no_grad():
                for name, tensor in unflatten(update, self.policy.params()).items():
                    self.policy.get_parameter(name).copy_(tensor)
        report.skipped = self.skipped
        return report

    def trust_region_step(
        self, theta: Tensor, batch: MetaBatch, report: StepReport
    ) -> tuple[Tensor | None, str]:
        """The next theta (P,) and an empty reason, or None and why there is none. Fills in ``report``."""
        valid = batch.valid
        line = Linearization(lambda x: self.adapted_policy(x, batch), theta)
        old, old_log_prob = line.value, line.value.log_prob(valid.actions)

        slope, loss = grad_and_value(self.surrogate_loss)(old, old_log_prob, valid)  # in pi's own parameters
        gradient = line.pull_back(slope)  # in theta
        report.loss, report.gradient_norm = float(loss), float(gradient.norm())
        if not (loss.isfinite() and gradient.isfinite().all()):
            return None, "the surrogate loss or its gradient is not finite"
        if report.gradient_norm == 0:
            return None, "the gradient is zero"

        part = batch  # what the curvature is measured on
        if self.curvature_fraction < 1:
            part = batch.first_episodes(math.ceil(self.curvature_fraction * valid.mask.shape[-1]))
            line = Linearization(lambda x: self.adapted_policy(x, part), theta)
        product = self.hessian_vector_product(line, part.valid)
        direction, report.cg_residual, positive = conjugate_gradient(product, gradient, self.cg_iterations)
        curvature = direction.dot(product(direction))
        if not (positive and curvature > 0):  # also when it is NaN
            return None, "the curvature is not positive"
        full_step = direction * torch.sqrt(2 * self.max_kl / curvature)  # ½ sᵀ H s = max_kl
        if not full_step.isfinite().all():
            return None, "the step is not finite"

        @torch.no_grad()
        def evaluate(x: Tensor) -> tuple[Tensor, Tensor]:
            pi = self.adapted_policy(x, batch)
            return self.surrogate_loss(pi, old_log_prob, valid), self.kl_divergence(old, pi, valid)

        search = line_search(
            evaluate, theta, full_step, report.loss, self.max_kl, self.ls_max_steps, self.ls_backtrack_ratio
        )
        report.new_loss, report.kl, report.trials = search.loss, search.kl, len(search.trials)
        return search.x, "" if search.x is not None else "no trial of the line search was good enough"

    def describe(self, batch: MetaBatch) -> StepReport:
        """A report with what can be said before the step."""
        returns = discounted_returns(batch.valid.rewards, batch.valid.mask, self.gamma)
        values = self.baseline.values(batch.valid, returns)
        log_std = self.policy.params().get("log_std", torch.tensor(torch.nan))
        return StepReport(
            explained_variance=float(explained_variance(values, returns, batch.valid.mask).mean()),
            log_std=float(log_std.mean()),
        )
