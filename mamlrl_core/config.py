"""Every setting of a run in one typed object, and a preset per task family.

The command line is derived from the fields below: a field is a flag, its docstring the flag's help.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal


@dataclass(frozen=True)
class Config:
    """Settings of one training run. The same settings give the same run, to the bit, on the same machine."""

    env: str = "mamlrl/Navigation2D-v0"
    """Gymnasium id of the task family."""
    seed: int = 1
    """Root of every random stream of the run."""
    iterations: int = 100
    """Meta-iterations. 0 stores the untrained policy, the "random" one of the comparisons."""

    num_tasks: int = 20
    """Tasks per meta-iteration (N)."""
    episodes_per_task: int = 20
    """Episodes per task and adaptation step (B)."""
    inner_steps: int = 1
    """Gradient steps of adaptation during training (K). 0 trains one policy for all tasks ("pretrained")."""
    observe_task: bool = False
    """Append the task to the observation. With inner_steps=0 this is the oracle."""

    fast_lr: float = 0.1
    """Step size of adaptation (alpha)."""
    test_step_sizes: tuple[float, ...] = ()
    """Step sizes of adaptation at test time; the last one repeats. Empty: fast_lr, then half of it."""
    first_order: bool = False
    """Hold the inner gradient constant in the outer derivatives (first-order MAML)."""
    gamma: float = 0.99
    """Discount."""
    gae_lambda: float = 1.0
    """Lambda of generalised advantage estimation."""

    hidden_sizes: tuple[int, ...] = (100, 100)
    """Units of each hidden layer."""
    nonlinearity: Literal["tanh", "relu"] = "tanh"
    """Activation of the hidden layers."""
    init_std: float = 1.0
    """Initial standard deviation of a Gaussian policy."""

    max_kl: float = 0.01
    """Radius of the trust region."""
    cg_iterations: int = 10
    """Iterations of conjugate gradient."""
    cg_damping: float = 1e-5
    """Damping of the curvature."""
    ls_max_steps: int = 15
    """Trials of the line search."""
    ls_backtrack_ratio: float = 0.8
    """How much shorter each trial of the line search is than the one before."""
    curvature_fraction: float = 1.0
    """Share of every task's episodes that the curvature is measured on."""

    backend: Literal["batched", "serial", "subproc"] = "batched"
    """How the environments run. It changes the speed and nothing else."""

    def __post_init__(self) -> None:
        at_least = {"seed": 0, "iterations": 0, "num_tasks": 1, "episodes_per_task": 1, "inner_steps": 0,
                    "cg_iterations": 1, "cg_damping": 0, "ls_max_steps": 1}  # fmt: skip
        for name, low in at_least.items():
            if getattr(self, name) < low:
                raise ValueError(f"{name} must be at least {low}, got {getattr(self, name)}")
        for name in ("fast_lr", "init_std", "max_kl"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("gamma", "gae_lambda", "ls_backtrack_ratio", "curvature_fraction"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie in (0, 1], got {getattr(self, name)}")
        if any(step <= 0 for step in self.test_step_sizes):
            raise ValueError(f"test_step_sizes must be positive, got {self.test_step_sizes}")

    @property
    def method(self) -> str:
        """What this run stands for in a comparison."""
        if self.observe_task:
            return "oracle"
        if self.iterations == 0:
            return "random"
        return "maml" if self.inner_steps else "pretrained"

    def step_size(self, k: int) -> float:
        """The step size of the k-th adaptation step at test time, k = 0, 1, ..."""
        schedule = self.test_step_sizes or (self.fast_lr, self.fast_lr / 2)
        return schedule[min(k, len(schedule) - 1)]

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Config:
        """The inverse of ``dataclasses.asdict``, also after a trip through JSON. Unknown keys are errors."""
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"unknown settings: {sorted(unknown)}")
        return cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})


BANDIT = {"num_tasks": 40, "episodes_per_task": 40, "hidden_sizes": (32, 32), "fast_lr": 0.5, "iterations": 50}

PRESETS: dict[str, Config] = {
    "navigation-2d": Config(env="mamlrl/Navigation2D-v0", curvature_fraction=0.2, fast_lr=0.5),
    "navigation-2d-sparse": Config(env="mamlrl/Navigation2DSparse-v0", curvature_fraction=0.2, fast_lr=0.5),
    "bernoulli-bandit-5": Config(env="mamlrl/BernoulliBandit5-v0", **BANDIT),
    "bernoulli-bandit-10": Config(env="mamlrl/BernoulliBandit10-v0", **BANDIT),
    "bernoulli-bandit-50": Config(env="mamlrl/BernoulliBandit50-v0", **BANDIT),
    "gaussian-bandit-5": Config(env="mamlrl/GaussianBandit5-v0", **BANDIT),
    "gaussian-bandit-10": Config(env="mamlrl/GaussianBandit10-v0", **BANDIT),
    "gaussian-bandit-50": Config(env="mamlrl/GaussianBandit50-v0", **BANDIT),
    "tabular-mdp": Config(env="mamlrl/TabularMDP-v0", num_tasks=40, hidden_sizes=(64, 64), fast_lr=0.5),
}
