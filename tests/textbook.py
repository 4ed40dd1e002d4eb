"""The textbook MAML-TRPO step: what ``MetaLearner.step`` must equal, and what it is measured against.

Nothing here is clever. Tasks are a Python loop, the divergence is written out and differentiated twice
through everything. Two ways of doing so:

* graph kept: adapt once, and keep the graph of the first derivative over all curvature products;
* the old code's way: adapt anew for every product and every trial, the baseline refitted each time.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Categorical, Normal, kl_divergence
from torch.nn.functional import linear

from mamlrl_core.episodes import BatchEpisodes
from mamlrl_core.metalearner import MetaBatch, MetaLearner

Params = dict[str, Tensor]


class Textbook:
    """One meta-step, from the settings and the policy of ``learner``, which it leaves alone.

    Args:
        learner: where the settings come from.
        batch: with advantages.
        keep_graph: false for the old code's way, which estimates the advantages again at every adaptation.
    """

    def __init__(self, learner: MetaLearner, batch: MetaBatch, keep_graph: bool = True):
        self.settings = learner
        self.keep_graph = keep_graph
        self.depth = len(learner.policy.layers)
        theta = learner.policy.params()
        self.theta = {name: tensor.clone().requires_grad_() for name, tensor in theta.items()}
        self.tasks = [
            ([one_task(train, i) for train in batch.train], one_task(batch.valid, i))
            for i in range(len(batch.valid.mask))
        ]
        self.trials: list[tuple[float, float]] = []

    # ------------------------------------------------------------------------------------------- one task

    def policy(self, params: Params, x: Tensor) -> Normal | Categorical:
        for i in range(self.depth):
            x = linear(x, params[f"layers.{i}.weight"], params[f"layers.{i}.bias"])
            if i < self.depth - 1:
                x = self.settings.policy.nonlinearity(x)
        if "log_std" in params:
            return Normal(x, params["log_std"].exp().expand_as(x), validate_args=False)
        return Categorical(logits=x, validate_args=False)

    def advantages(self, episodes: BatchEpisodes) -> Tensor:
        """GAE on a linear baseline fitted to these episodes, normalised: (T, B)."""
        if self.keep_graph:
            return episodes.advantages
        s, (T, B) = self.settings, episodes.mask.shape
        mask, o = episodes.mask.double(), episodes.observations.double()
        t = (torch.arange(1, T + 1, dtype=torch.float64) / 100).view(T, 1, 1).expand(T, B, 1)
        phi = (torch.cat([o, o**2, t, t**2, t**3, torch.ones_like(t)], -1) * mask[..., None]).view(T * B, -1)
        nothing = torch.zeros(B, dtype=torch.float64)
        returns, total = [], nothing
        for reward in reversed(episodes.rewards.double()):
            total = reward + s.gamma * total
            returns.insert(0, total)
        ridge = s.baseline.ridge * torch.eye(phi.shape[1], dtype=torch.float64)
        coefficients = torch.linalg.solve(phi.T @ phi + ridge, phi.T @ torch.stack(returns).view(-1))
        values = (phi @ coefficients).view(T, B)
        advantages, total, following = [], nothing, nothing
        for reward, value in zip(reversed(episodes.rewards.double()), reversed(values), strict=True):
            total = reward + s.gamma * following - value + s.gamma * s.gae_lambda * total
            following = value
            advantages.insert(0, total)
        valid = torch.stack(advantages)[episodes.mask]
        normal = (torch.stack(advantages) - valid.mean()) / (valid.std(correction=0) + 1e-8)
        return (normal * mask).to(episodes.rewards.dtype)

    def adapt(self, params: Params, train: list[BatchEpisodes], create_graph: bool) -> Params:
        for k, episodes in enumerate(train):
            log_prob = log_probability(self.policy(params, episodes.observations), episodes.actions)
            loss = -mean(log_prob * self.advantages(episodes), episodes.mask)
            gradient = torch.autograd.grad(loss, list(params.values()), create_graph=create_graph)
            params = {
                name: tensor - self.settings.step_size(k) * g
                for (name, tensor), g in zip(params.items(), gradient, strict=True)
            }
        return params

    # ------------------------------------------------------------------------------------------ all tasks

    def adapted_policies(self, theta: Params, create_graph: bool) -> list[Normal | Categorical]:
        create_graph = create_graph and not self.settings.first_order
        return [
            self.policy(self.adapt(theta, train, create_graph), valid.observations)
            for train, valid in self.tasks
        ]

    def surrogate(self, policies: list, old_log_probs: list[Tensor]) -> Tensor:
        """Minus the importance-weighted advantage, mean over tasks."""
        losses = []
        for pi, old, (_, valid) in zip(policies, old_log_probs, self.tasks, strict=True):
            ratio = torch.exp(log_probability(pi, valid.actions) - old)
            losses.append(-mean(ratio * self.advantages(valid), valid.mask))
        return torch.stack(losses).mean()

    def kl(self, old_policies: list, policies: list) -> Tensor:
        """KL(old || new), mean over tasks."""
        divergences = []
        for old, new, (_, valid) in zip(old_policies, policies, self.tasks, strict=True):
            kl = kl_divergence(old, new)
            divergences.append(mean(kl.sum(-1) if isinstance(new, Normal) else kl, valid.mask))
        return torch.stack(divergences).mean()

    def gradient_and_product(self):
        """The meta-gradient (P,), the function v -> (H + damping) v, and the old policies and loss."""
        theta = list(self.theta.values())
        policies = self.adapted_policies(self.theta, create_graph=True)
        self.old = [detached(pi) for pi in policies]
        self.old_log_probs = [
            log_probability(pi, valid.actions) for pi, (_, valid) in zip(self.old, self.tasks, strict=True)
        ]
        self.loss = self.surrogate(policies, self.old_log_probs)
        gradient = concatenated(torch.autograd.grad(self.loss, theta, retain_graph=self.keep_graph))
        if self.keep_graph:
            kept = self.kl_gradient(policies)

        def product(v: Tensor) -> Tensor:
            anew = None if self.keep_graph else self.adapted_policies(self.theta, create_graph=True)
            kl_gradient = kept if self.keep_graph else self.kl_gradient(anew)
            second = torch.autograd.grad(kl_gradient.dot(v), theta, retain_graph=self.keep_graph)
            return concatenated(second) + self.settings.cg_damping * v

        return gradient, product

    def kl_gradient(self, policies: list) -> Tensor:
        kl = self.kl(self.old, policies)
        return concatenated(torch.autograd.grad(kl, list(self.theta.values()), create_graph=True))

    # ----------------------------------------------------------------------------------------------- step

    def step(self) -> Tensor:
        """The next theta (P,): the first trial of the line search that is good enough, or theta itself."""
        s = self.settings
        self.gradient, product = self.gradient_and_product()
        direction = self.conjugate_gradient(product, self.gradient)
        self.curvature = direction.dot(product(direction))
        step = direction * torch.sqrt(2 * s.max_kl / self.curvature)
        theta = concatenated(self.theta.values()).detach()
        for backtrack in range(s.ls_max_steps):
            trial = theta - s.ls_backtrack_ratio**backtrack * step
            pieces = trial.split([tensor.numel() for tensor in self.theta.values()])
            params = {
                name: piece.view_as(tensor).clone().requires_grad_()
                for (name, tensor), piece in zip(self.theta.items(), pieces, strict=True)
            }
            policies = self.adapted_policies(params, create_graph=not self.keep_graph)
            loss, kl = self.surrogate(policies, self.old_log_probs), self.kl(self.old, policies)
            self.trials.append((loss.item(), kl.item()))
            if loss < self.loss and kl <= s.max_kl:
                return trial
        return theta

    def conjugate_gradient(self, product, b: Tensor) -> Tensor:
        x, r, p = torch.zeros_like(b), b.clone(), b.clone()
        for _ in range(self.settings.cg_iterations):
            z = product(p)
            alpha = r.dot(r) / p.dot(z)
            x, new_r = x + alpha * p, r - alpha * z
            p, r = new_r + (new_r.dot(new_r) / r.dot(r)) * p, new_r
        return x


def one_task(episodes: BatchEpisodes, i: int) -> BatchEpisodes:
    return BatchEpisodes(*(tensor[i] for tensor in episodes))


def mean(x: Tensor, mask: Tensor) -> Tensor:
    """Over the valid steps."""
    return x[mask].mean()


def log_probability(pi: Normal | Categorical, actions: Tensor) -> Tensor:
    log_prob = pi.log_prob(actions)
    return log_prob.sum(-1) if isinstance(pi, Normal) else log_prob


def detached(pi: Normal | Categorical) -> Normal | Categorical:
    if isinstance(pi, Normal):
        return Normal(pi.loc.detach(), pi.scale.detach(), validate_args=False)
    return Categorical(logits=pi.logits.detach(), validate_args=False)


def concatenated(tensors) -> Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in tensors])
