"""The training loop: sample tasks, play, adapt, play again, step; write everything down; survive a kill."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gymnasium
import torch
from torch.utils.tensorboard import SummaryWriter
from tqdm.auto import tqdm

from .checkpoint import load_checkpoint, save_checkpoint, write_atomically
from .config import Config
from .metalearner import MetaLearner
from .policies import CategoricalMLPPolicy, MLPPolicy, NormalMLPPolicy
from .sampler import BatchSampler
from .seeding import Purpose, derive_seed


def make_sampler(config: Config, **overrides: Any) -> BatchSampler:
    """The sampler of a run."""
    arguments = {
        "num_tasks": config.num_tasks,
        "episodes_per_task": config.episodes_per_task,
        "seed": config.seed,
        "observe_task": config.observe_task,
        "backend": config.backend,
        **overrides,
    }
    return BatchSampler(config.env, **arguments)


def make_policy(config: Config, sampler: BatchSampler) -> MLPPolicy:
    """The untrained policy of a run: Gaussian for continuous actions, categorical for a finite set."""
    init_seed = derive_seed(config.seed, Purpose.POLICY_INIT) % 2**63  # what a torch.Generator takes
    network = {
        "hidden_sizes": config.hidden_sizes,
        "nonlinearity": config.nonlinearity,
        "generator": torch.Generator().manual_seed(init_seed),
    }
    space = sampler.envs.single_action_space
    if isinstance(space, gymnasium.spaces.Discrete):
        return CategoricalMLPPolicy(sampler.obs_dim, int(space.n), **network)
    return NormalMLPPolicy(sampler.obs_dim, space.shape[0], init_std=config.init_std, **network)


def make_learner(config: Config, policy: MLPPolicy) -> MetaLearner:
    """The meta-learner of a run, around ``policy``."""
    names = ("fast_lr", "gamma", "gae_lambda", "first_order", "max_kl", "cg_iterations", "cg_damping",
             "ls_max_steps", "ls_backtrack_ratio", "curvature_fraction")  # fmt: skip
    return MetaLearner(policy, **{name: getattr(config, name) for name in names})


class Run:
    """A training run in a directory of its own.

    ``config.json`` holds the settings, ``metrics.jsonl`` a line per iteration, ``checkpoint.pt`` the state after the
    last finished iteration, ``events.*`` the same metrics for TensorBoard. If the directory holds a run already, it is
    continued where its checkpoint left it. No generator state needs saving: every random stream is named by the
    seed and the iteration.

    Args:
        config: the settings. To continue a run they must be those it was started with, but for ``iterations``.
        directory: where to write; made if missing.
    """

    def __init__(self, config: Config, directory: Path):
        self.config = config
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.sampler = make_sampler(config)
        self.policy = make_policy(config, self.sampler)
        self.learner = make_learner(config, self.policy)
        self.iteration = 0  # finished iterations
        if self.checkpoint_path.exists():
            self._resume()
        else:
            self.metrics_path.write_text("")
            self._save()
        config_json = json.dumps(asdict(config), indent=2) + "\n"
        write_atomically(self.directory / "config.json", lambda file: file.write(config_json.encode()))

    @property
    def checkpoint_path(self) -> Path:
        return self.directory / "checkpoint.pt"

    @property
    def metrics_path(self) -> Path:
        return self.directory / "metrics.jsonl"

    def train(self, progress: bool = True) -> list[dict[str, Any]]:
        """Train to the end and return the metrics of the whole run."""
        bar = tqdm(total=self.config.iterations, initial=self.iteration, unit="it", disable=not progress)
        with bar, SummaryWriter(self.directory, purge_step=self.iteration) as board:
            for metrics in self:
                for name, value in metrics.items():
                    if isinstance(value, int | float):
                        board.add_scalar(name, value, metrics["iteration"])
                before, after = metrics["returns"][0], metrics["returns"][-1]
                bar.set_postfix_str(f"return {before:.1f} before, {after:.1f} after adaptation")
                bar.update()
        return read_metrics(self.metrics_path)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Run the remaining iterations; each yields its metrics once they and the checkpoint are on disk."""
        while self.iteration < self.config.iterations:
            metrics = self._iterate()
            with open(self.metrics_path, "a") as file:
                file.write(json.dumps(metrics) + "\n")
            self.iteration += 1
            self._save()
            yield metrics

    def _iterate(self) -> dict[str, Any]:
        started = time.perf_counter()
        self.sampler.reset_task(self.sampler.sample_tasks(self.iteration))
        batch = self.learner.sample(self._play, self.config.inner_steps)
        sampled = time.perf_counter()
        report = self.learner.step(batch)
        stepped = time.perf_counter()
        return {
            "iteration": self.iteration,
            "returns": [float(episodes.returns.mean()) for episodes in (*batch.train, batch.valid)],
            **asdict(report),
            "sample_seconds": round(sampled - started, 3),
            "step_seconds": round(stepped - sampled, 3),
        }

    def _play(self, params, phase: int):
        return self.sampler.sample(self.policy, params, iteration=self.iteration, phase=phase)

    def _save(self) -> None:
        state = {
            "config": json.loads(json.dumps(asdict(self.config))),  # plain lists, as weights_only wants them
            "policy": self.policy.state_dict(),
            "iteration": self.iteration,
            "skipped": self.learner.skipped,
            "threads": torch.get_num_threads(),
        }
        save_checkpoint(self.checkpoint_path, state)

    def _resume(self) -> None:
        state = load_checkpoint(self.checkpoint_path)
        stored, wanted = asdict(Config.from_dict(state["config"])), asdict(self.config)
        changed = [name for name in wanted if wanted[name] != stored[name] and name != "iterations"]
        if changed:
            details = ", ".join(f"{name} was {stored[name]!r}, now {wanted[name]!r}" for name in changed)
            raise ValueError(f"{self.directory} holds a run with other settings ({details}): choose another directory")
        if state["threads"] != torch.get_num_threads():
            warnings.warn(
                f"the run used {state['threads']} threads, this process {torch.get_num_threads()}: "
                "it will continue correctly, but not to the same bits",
                stacklevel=3,
            )
        self.policy.load_state_dict(state["policy"])
        self.learner.skipped = state["skipped"]
        self.iteration = state["iteration"]
        # A kill between a metrics line and its checkpoint leaves a line too many, or a torn one.
        kept = "".join(json.dumps(m) + "\n" for m in read_metrics(self.metrics_path) if m["iteration"] < self.iteration)
        write_atomically(self.metrics_path, lambda file: file.write(kept.encode()))


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The metrics of a run, one dict per iteration. A torn last line, left by a kill, is passed over."""
    lines = Path(path).read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def load_policy(directory: Path) -> tuple[Config, MLPPolicy]:
    """The settings and the policy of the run in ``directory``."""
    state = load_checkpoint(Path(directory) / "checkpoint.pt")
    config = Config.from_dict(state["config"])
    with make_sampler(config, num_tasks=1, episodes_per_task=1, backend="serial") as sampler:
        policy = make_policy(config, sampler)
    policy.load_state_dict(state["policy"])
    return config, policy
