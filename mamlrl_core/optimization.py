"""The numerical tools of the outer step: a linear map by its products, conjugate gradient, line search."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

Product = Callable[[Tensor], Tensor]


class CGResult(NamedTuple):
    """The outcome of ``conjugate_gradient``."""

    x: Tensor  # (P,)
    residual: float  # |b - A x| / |b|, by the recursion
    positive: bool  # whether every pᵀ A p met on the way was positive


def conjugate_gradient(
    product: Product, b: Tensor, iterations: int = 10, tolerance: float = 1e-10
) -> CGResult:
    """Solve A x = b for a symmetric positive definite A that is known only by its products.

    Each iteration costs one product. It stops early when the relative residual falls below ``tolerance``,
    or when it meets a direction along which A does not curve upwards: there the quadratic model has no
    minimum.

    Args:
        product: v (P,) -> A v (P,).
        b: the right-hand side (P,).

    Source: Nocedal & Wright, Numerical Optimization, algorithm 5.2.
    """
    x = torch.zeros_like(b)
    residual = b.clone()
    direction = residual.clone()
    squared = residual.dot(residual)
    b_norm = squared.sqrt()
    positive = True
    for _ in range(iterations):
        if squared.sqrt() <= tolerance * b_norm:
            break
        curved = product(direction)
        curvature = direction.dot(curved)
        if not curvature > 0:  # also false for NaN
            positive = False
            break
        step = squared / curvature
        x = x + step * direction
        residual = residual - step * curved
        new_squared = residual.dot(residual)
        direction = residual + (new_squared / squared) * direction
        squared = new_squared
    return CGResult(x, float(squared.sqrt() / b_norm) if b_norm > 0 else 0.0, positive)


class Linearization:
    """A function at one point x (P,): its value there, and products with its Jacobian J.

    Reverse mode gives u -> Jᵀ u. That map is linear in u, so its own transpose is J: reverse mode applied to
    the pull-back is forward mode, at no new run of the function.
    """

    def __init__(self, function: Callable, x: Tensor):
        self.value, self._reverse = torch.func.vjp(function, x)

    def pull_back(self, u: Any) -> Tensor:
        """Jᵀ u (P,), for ``u`` shaped like the value."""
        return self._reverse(u)[0]

    def push_forward(self, v: Tensor) -> Any:
        """J v, shaped like the value, for ``v`` (P,)."""
        return self._transposed(v)[0]

    @cached_property
    def _transposed(self) -> Callable:  # made when first needed: a gradient alone does not need it
        return torch.func.vjp(self.pull_back, self.value)[1]


class LineSearchResult(NamedTuple):
    """The outcome of ``line_search``."""

    x: Tensor | None  # the accepted point, or None
    loss: float  # at the last trial
    kl: float  # at the last trial
    trials: list[tuple[float, float]]  # (loss, KL) of every trial


def line_search(
    evaluate: Callable[[Tensor], tuple[Tensor, Tensor]],
    x: Tensor,
    step: Tensor,
    old_loss: float,
    max_kl: float,
    max_steps: int = 15,
    backtrack_ratio: float = 0.8,
) -> LineSearchResult:
    """Try x - step, then shorter and shorter, until the loss falls and the KL is at most ``max_kl``.

    The conjugate-gradient step trusts a quadratic model of the KL and a linear model of the loss; here
    both are checked against the real thing (Schulman et al. 2015, appendix C).

    Args:
        evaluate: x (P,) -> (loss, KL), two scalars.
        step: the full step (P,); it is subtracted.
    """
    trials = []
    for backtrack in range(max_steps):
        trial = x - backtrack_ratio**backtrack * step
        loss, kl = (float(value) for value in evaluate(trial))
        trials.append((loss, kl))
        if loss < old_loss and kl <= max_kl:
            return LineSearchResult(trial, loss, kl, trials)
    return LineSearchResult(None, *trials[-1], trials)
