"""Conjugate gradient against a direct solve, linear maps against Jacobians, the line search by hand."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from mamlrl_core.optimization import Linearization, conjugate_gradient, line_search


def positive_definite(size, seed=0):
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(size, size, dtype=torch.float64, generator=generator)
    return root @ root.T + 0.1 * torch.eye(size, dtype=torch.float64)


def test_conjugate_gradient_solves():
    a = positive_definite(12)
    b = torch.arange(1.0, 13.0, dtype=torch.float64)
    result = conjugate_gradient(lambda v: a @ v, b, iterations=40)
    torch.testing.assert_close(result.x, torch.linalg.solve(a, b), rtol=1e-8, atol=1e-8)
    assert result.positive
    assert result.residual <= 1e-10


@pytest.mark.parametrize("iterations", [1, 4, 10])
def test_each_iteration_costs_one_product_and_the_residual_is_honest(iterations):
    a, b = positive_definite(30), torch.ones(30, dtype=torch.float64)
    products = []
    result = conjugate_gradient(lambda v: products.append(v) or a @ v, b, iterations)
    assert len(products) == iterations
    assert result.residual == pytest.approx(float((b - a @ result.x).norm() / b.norm()), rel=1e-6)


def test_it_stops_when_solved():
    """As many iterations as there are distinct eigenvalues, here two."""
    a = torch.diag(torch.tensor([1.0, 1.0, 5.0, 5.0], dtype=torch.float64))
    products = []
    b = torch.tensor([1.0, -2.0, 3.0, 0.5], dtype=torch.float64)
    result = conjugate_gradient(lambda v: products.append(v) or a @ v, b, iterations=10)
    assert len(products) == 2
    torch.testing.assert_close(result.x, b / torch.diagonal(a))


@pytest.mark.parametrize("spoil", [lambda v: -v, lambda v: 0 * v, lambda v: v * torch.nan])
def test_curvature_that_is_not_positive_is_flagged(spoil):
    result = conjugate_gradient(spoil, torch.ones(3), iterations=5)
    assert not result.positive
    assert not result.x.any()


def test_curvature_that_turns_negative_on_the_way_is_flagged():
    a = torch.diag(torch.tensor([3.0, 2.0, -1.0]))
    result = conjugate_gradient(lambda v: a @ v, torch.tensor([1.0, 1.0, 0.5]), iterations=5)
    assert not result.positive
    assert result.x.isfinite().all()


def test_nothing_to_solve():
    result = conjugate_gradient(lambda v: pytest.fail("no product is needed"), torch.zeros(4))
    assert not result.x.any()
    assert result.residual == 0.0
    assert result.positive


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


def curve(x):
    return Pair(torch.sin(x[:3]) * x[1], torch.outer(x, x[:2] ** 3))


def test_linearization_gives_both_products_of_the_jacobian():
    generator = torch.Generator().manual_seed(0)
    x, v = torch.randn(2, 4, dtype=torch.float64, generator=generator)
    u = Pair(*(torch.randn(*shape, dtype=torch.float64, generator=generator) for shape in ((3,), (4, 2))))
    jacobian = torch.autograd.functional.jacobian(lambda z: torch.cat([y.flatten() for y in curve(z)]), x)
    line = Linearization(curve, x)
    for ours, expected in zip(line.value, curve(x), strict=True):
        assert torch.equal(ours, expected)
    pushed = line.push_forward(v)
    assert isinstance(pushed, Pair)
    torch.testing.assert_close(torch.cat([y.flatten() for y in pushed]), jacobian @ v)
    torch.testing.assert_close(line.pull_back(u), jacobian.T @ torch.cat([y.flatten() for y in u]))


def test_linearization_runs_the_function_once():
    runs = []
    line = Linearization(lambda x: runs.append(1) or Pair(x**2, x), torch.ones(3))
    for _ in range(3):
        line.pull_back(line.push_forward(torch.ones(3)))
    assert len(runs) == 1


def bowl(x):
    """A loss that falls only for short steps, and a KL that grows as the square of the step."""
    return (x - 0.3).square().sum(), 4 * x.square().sum()


def test_line_search_takes_the_first_trial_that_is_good_enough():
    start, step = torch.zeros(1), torch.tensor([-1.0])  # trials at 1, 1/2, 1/4, 1/8
    result = line_search(bowl, start, step, old_loss=0.09, max_kl=0.1, max_steps=10, backtrack_ratio=0.5)
    # At 1 the loss rises; at 1/2 it falls, but the KL is 1; at 1/4 the KL is 0.25; at 1/8 it is 0.0625.
    assert result.x.item() == 0.125
    assert [kl for _, kl in result.trials] == [4.0, 1.0, 0.25, 0.0625]
    assert (result.loss, result.kl) == result.trials[-1]


@pytest.mark.parametrize(
    "evaluate",
    [
        lambda x: (torch.tensor(0.09), torch.tensor(0.0)),  # no better than before
        lambda x: (torch.tensor(0.0), torch.tensor(0.11)),  # too far
        lambda x: (torch.tensor(torch.nan), torch.tensor(0.0)),
        lambda x: (torch.tensor(0.0), torch.tensor(torch.nan)),
    ],
)
def test_line_search_may_fail(evaluate):
    result = line_search(evaluate, torch.zeros(2), torch.ones(2), old_loss=0.09, max_kl=0.1, max_steps=3)
    assert result.x is None
    assert len(result.trials) == 3
