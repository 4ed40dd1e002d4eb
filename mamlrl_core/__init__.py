"""MAML for reinforcement learning: environments, sampler, advantages, and a TRPO meta-learner.

Importing the package costs nothing: the names below are loaded when they are first used, so that a worker
process that only steps environments never waits for PyTorch.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "make_vec_env": "envs",
    "NormalMLPPolicy": "policies",
    "CategoricalMLPPolicy": "policies",
    "BatchEpisodes": "episodes",
    "LinearFeatureBaseline": "baseline",
    "BatchSampler": "sampler",
    "MetaLearner": "metalearner",
    "Config": "config",
}

__version__ = "0.1.0"
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
