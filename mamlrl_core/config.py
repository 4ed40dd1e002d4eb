"""Every setting of a run in one typed object, and a preset per task family.

The command line is derived from the fields below: a field is a flag, its docstring the flag's help.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

Nonlinearity = Literal["tanh", "relu"]
Backend = Literal["batched", "serial", "subproc"]


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
    warmup_iterations: int = 0
    """Iterations at the start that train the first inner step alone; the others train all K."""
    observe_task: bool = False
    """Append the task to the observation. With inner_steps=0 this is the oracle."""

    fast_lr: tuple[float, ...] = (0.1,)
    """Step sizes of adaptation (alpha), one per inner step; the last one repeats."""
    first_order: bool = False
    """Hold the inner gradient constant in the outer derivatives (first-order MAML)."""
    gamma: float = 0.99
    """Discount."""
    gae_lambda: float = 1.0
    """Lambda of generalised advantage estimation."""

    hidden_sizes: tuple[int, ...] = (100, 100)
    """Units of each hidden layer."""
    nonlinearity: Nonlinearity = "tanh"
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

    backend: Backend = "batched"
    """How the environments run. It changes the speed and nothing else."""

    def __post_init__(self) -> None:
        for field in fields(self):
            plain = as_plain(getattr(self, field.name))
            object.__setattr__(self, field.name, plain)  # the class is frozen
        check_settings(vars(self))

    @property
    def method(self) -> str:
        """What this run stands for in a comparison."""
        if self.observe_task:
            return "oracle"
        if self.iterations == 0:
            return "random"
        return "maml" if self.inner_steps else "pretrained"

    def step_size(self, k: int) -> float:
        """The size of adaptation step k = 0, 1, ... at test time: as in training, beyond it half of the last.

        >>> [Config(fast_lr=(0.1,), inner_steps=1).step_size(k) for k in range(3)]
        [0.1, 0.05, 0.05]
        """
        trained = max(self.inner_steps, len(self.fast_lr))
        return self.fast_lr[min(k, len(self.fast_lr) - 1)] if k < trained else self.fast_lr[-1] / 2

    def inner_steps_at(self, iteration: int) -> int:
        """The number of inner steps that meta-iteration ``iteration`` = 0, 1, ... trains."""
        return min(self.inner_steps, 1) if iteration < self.warmup_iterations else self.inner_steps

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Config:
        """The inverse of ``dataclasses.asdict``, also after a trip through JSON. Unknown keys are errors.

        >>> Config.from_dict({"seed": 7, "hidden_sizes": [8]}).hidden_sizes
        (8,)
        """
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"unknown settings: {sorted(unknown)}")
        return cls(**values)


def as_plain(value: Any) -> Any:
    """Lists as tuples, and numbers of NumPy or PyTorch as Python's own, which every file format knows."""
    if isinstance(value, list | tuple):
        return tuple(as_plain(one) for one in value)
    return value.item() if getattr(value, "shape", None) == () else value


Rule = tuple[str, Callable[[Any], bool]]  # what a setting must do, in words and as a test


def whole(low: int) -> Rule:
    return f"be a whole number, at least {low}", lambda x: type(x) is int and x >= low


def one_of(*choices: Any) -> Rule:
    return f"be one of {choices}", lambda x: x in choices


# A NaN fails every comparison below, and so is refused like everything else that no run can use.
POSITIVE: Rule = ("be positive and finite", lambda x: 0 < x < math.inf)
SHARE: Rule = ("lie in (0, 1]", lambda x: 0 < x <= 1)
DISCOUNT: Rule = ("lie in [0, 1]", lambda x: 0 <= x <= 1)

RULES: dict[str, Rule] = {
    "env": ("be a Gymnasium id", lambda x: isinstance(x, str)),
    "seed": whole(0),
    "iterations": whole(0),
    "num_tasks": whole(1),
    "episodes_per_task": whole(1),
    "inner_steps": whole(0),
    "warmup_iterations": whole(0),
    "observe_task": one_of(True, False),
    "fast_lr": ("hold positive, finite numbers", lambda x: len(x) > 0 and all(0 < a < math.inf for a in x)),
    "first_order": one_of(True, False),
    "gamma": DISCOUNT,
    "gae_lambda": DISCOUNT,
    "hidden_sizes": ("hold positive whole numbers", lambda x: all(type(n) is int and n > 0 for n in x)),
    "nonlinearity": one_of(*get_args(Nonlinearity)),
    "init_std": ("lie between 0 and 10", lambda x: 0 < x < 10),
    "max_kl": POSITIVE,
    "cg_iterations": whole(1),
    "cg_damping": ("be finite and not negative", lambda x: 0 <= x < math.inf),
    "ls_max_steps": whole(1),
    "ls_backtrack_ratio": SHARE,
    "curvature_fraction": SHARE,
    "backend": one_of(*get_args(Backend)),
}


def check_settings(values: Mapping[str, Any]) -> None:
    """Hold ``values``, settings by their names, against the rules. Other names are passed over.

    Raises:
        ValueError: for the first setting that no run can use, with its name and value.
    """
    for name, (rule, holds) in RULES.items():
        if name in values:
            value = as_plain(values[name])
            try:
                fine = holds(value) is True  # not merely truthy, as an array of one number is
            except TypeError:  # text where a number should be
                fine = False
            if not fine:
                raise ValueError(f"{name} must {rule}, got {value!r}")


# A pull changes nothing but its own reward, so an advantage that looks further (lambda > 0) adds only noise.
# Once adaptation commits to an arm, what theta prefers costs nothing any more, and drifts: hence few
# iterations and some damping.
BANDIT: dict[str, Any] = {
    "num_tasks": 40,
    "iterations": 30,
    "hidden_sizes": (32, 32),
    "fast_lr": (5.0,),
    "gae_lambda": 0.0,
    "cg_damping": 1e-3,
    "curvature_fraction": 0.2,
}
# From nearly everywhere a random world's next state is any other, so here too an advantage need not look far.
MDP: dict[str, Any] = {**BANDIT, "iterations": 60, "hidden_sizes": (64, 64)}

# Found by trial: a short second step, and a lambda that makes the inner gradient steadier.
NAVIGATION: dict[str, Any] = {
    "iterations": 140,
    "inner_steps": 2,
    "warmup_iterations": 100,
    "fast_lr": (0.5, 0.16),
    "gae_lambda": 0.9,
    "hidden_sizes": (64, 64),
    "curvature_fraction": 0.2,
}

# Tasks, episodes, network and step size are those of the published experiments; the trust region is wider.
LOCOMOTION: dict[str, Any] = {
    "num_tasks": 40,
    "fast_lr": (0.1,),
    "nonlinearity": "relu",
    "gae_lambda": 0.95,
    "max_kl": 0.03,
    "cg_damping": 1e-2,
    "curvature_fraction": 0.2,
}
# Noise in the torques costs a cheetah that should keep a velocity twice: as effort, and as velocities that it
# did not want. With less of it at the start it is further after as many iterations.
VELOCITY: dict[str, Any] = {**LOCOMOTION, "init_std": 0.4}
# Fewer tasks, since the ant is six times as expensive. Noise throws it on its back, and with a deviation of 1
# it learns nothing; 0.2 and this step size move it in the right direction before it has been trained at all.
ANT: dict[str, Any] = {**LOCOMOTION, "num_tasks": 10, "init_std": 0.2, "fast_lr": (0.2,)}

PRESETS: dict[str, Config] = {
    "navigation-2d": Config(env="mamlrl/Navigation2D-v0", **NAVIGATION),
    "navigation-2d-sparse": Config(env="mamlrl/Navigation2DSparse-v0", **NAVIGATION),
    "bernoulli-bandit-5": Config(env="mamlrl/BernoulliBandit5-v0", **BANDIT),
    "bernoulli-bandit-10": Config(env="mamlrl/BernoulliBandit10-v0", **BANDIT),
    "bernoulli-bandit-50": Config(env="mamlrl/BernoulliBandit50-v0", **BANDIT),
    "gaussian-bandit-5": Config(env="mamlrl/GaussianBandit5-v0", **BANDIT),
    "gaussian-bandit-10": Config(env="mamlrl/GaussianBandit10-v0", **BANDIT),
    "gaussian-bandit-50": Config(env="mamlrl/GaussianBandit50-v0", **BANDIT),
    "half-cheetah-direction": Config(env="mamlrl/HalfCheetahDir-v0", **LOCOMOTION),
    "half-cheetah-velocity": Config(env="mamlrl/HalfCheetahVel-v0", **VELOCITY),
    "ant-direction": Config(env="mamlrl/AntDir-v0", **ANT),
    "ant-velocity": Config(env="mamlrl/AntVel-v0", **ANT),
    "ant-goal": Config(env="mamlrl/AntGoal-v0", **ANT),
    "tabular-mdp": Config(env="mamlrl/TabularMDP-v0", **MDP),
}
