"""The training loop: sample tasks, play, adapt, play again, step; write everything down; survive a kill."""

from __future__ import annotations

import errno
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import filelock
import gymnasium
import torch
from torch.utils.tensorboard import SummaryWriter
from tqdm.auto import tqdm

from .checkpoint import contents_of, load_checkpoint, save_checkpoint, write_atomically
from .config import Config
from .episodes import BatchEpisodes
from .metalearner import MetaLearner
from .metrics import Metrics, as_line, finite_or_null, in_words, scalars
from .policies import CategoricalMLPPolicy, MLPPolicy, NormalMLPPolicy, Params
from .sampler import BatchSampler
from .seeding import Purpose, derive_seed


def make_sampler(config: Config, **overrides: Any) -> BatchSampler:
    """The sampler of a run.

    Raises:
        ValueError: if ``config.env`` names nothing, or something else than a task family.
        DependencyNotInstalled: if the family needs a package that is missing; it says how to install it.
    """
    arguments = {
        "num_tasks": config.num_tasks,
        "episodes_per_task": config.episodes_per_task,
        "seed": config.seed,
        "observe_task": config.observe_task,
        "backend": config.backend,
        **overrides,
    }
    try:
        return BatchSampler(config.env, **arguments)
    except gymnasium.error.DependencyNotInstalled:
        raise
    except (TypeError, ImportError, gymnasium.error.Error) as error:
        raise ValueError(f"env must be the id of a task family, got {config.env!r}: {error}") from error


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
    """A training run in a directory of its own. If the directory holds the run already, it is continued.

    =================  =======================================================================================
    ``checkpoint.pt``  policy, settings and metrics after the last finished iteration. This file is the run.
    ``metrics.jsonl``  the metrics for other programs, one line of JSON per iteration
    ``config.json``    the settings, likewise
    ``events.*``       the metrics for TensorBoard
    =================  =======================================================================================

    Whatever moment a run is killed at, the next one makes the other files agree with the checkpoint again. No
    generator state needs saving: every random stream is named by the seed and the iteration.

    Args:
        config: the settings. To continue a run they must be those it was started with, but for ``FREE`` ones.
        directory: where to write. Nothing is written before training starts.

    Raises:
        CheckpointError: if the directory's checkpoint cannot be used.
        ValueError: if the directory holds a run with other settings.
        FileExistsError: if it holds files of the same names, but no checkpoint.
        BlockingIOError: when training starts, if another run is training in the directory.
    """

    FREE = ("iterations", "backend")  # settings that change no iteration

    def __init__(self, config: Config, directory: Path):
        self.config = config
        self.directory = Path(directory)
        self.checkpoint_path = self.directory / "checkpoint.pt"
        self.metrics_path = self.directory / "metrics.jsonl"
        self.config_path = self.directory / "config.json"
        self.lock = filelock.FileLock(self.directory / ".lock", blocking=False)
        self.metrics: list[Metrics] = []  # of the finished iterations
        self.sampler = make_sampler(config)
        self.policy = make_policy(config, self.sampler)
        self.learner = make_learner(config, self.policy)
        self._load()

    @property
    def iteration(self) -> int:
        """The number of finished iterations."""
        return len(self.metrics)

    def train(self, progress: bool = True, every: float = 0.1) -> list[Metrics]:
        """Train to the end, with a bar drawn ``every`` seconds, and return the metrics of the whole run."""
        total, hidden = self.config.iterations, not progress
        with (
            self._opened(),
            tqdm(total=total, initial=self.iteration, mininterval=every, disable=hidden) as bar,
            SummaryWriter(self.directory, purge_step=0, flush_secs=10) as board,
        ):
            for metrics in self.metrics:  # once more: the last seconds before a kill never reached the disk
                write_scalars(board, metrics)
            for metrics in self:
                write_scalars(board, metrics)
                bar.set_postfix_str(in_words(metrics), refresh=False)
                bar.update()
        return self.metrics

    def __iter__(self) -> Iterator[Metrics]:
        """Run the remaining iterations; each yields its metrics once they and the checkpoint are on disk."""
        with self._opened():
            while self.iteration < self.config.iterations:
                metrics = self._iterate()
                self.metrics.append(metrics)
                self._save()
                with open(self.metrics_path, "a") as file:
                    file.write(as_line(metrics))
                yield metrics

    def close(self) -> None:
        """End the environments, and their processes where they have any."""
        self.sampler.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _iterate(self) -> Metrics:
        started, broken = perf_counter(), self.sampler.broken
        self.sampler.reset_task(self.sampler.sample_tasks(self.iteration))
        batch = self.learner.sample(self._play, self.config.inner_steps_at(self.iteration))
        sampled = perf_counter()
        report = self.learner.step(batch)
        stepped = perf_counter()
        metrics = {
            "iteration": self.iteration,
            "returns": [float(d.returns.mean()) for d in (*batch.train, batch.valid)],  # after k = 0..K steps
            "broken": self.sampler.broken - broken,  # episodes
            **asdict(report),
            "sample_seconds": round(sampled - started, 3),
            "step_seconds": round(stepped - sampled, 3),
        }
        return finite_or_null(metrics)

    def _play(self, params: Params | None, phase: int) -> BatchEpisodes:
        return self.sampler.sample(self.policy, params, iteration=self.iteration, phase=phase)

    @contextmanager
    def _opened(self) -> Iterator[None]:
        """Hold the directory against all other runs, with memory and files as the checkpoint says.

        Memory is not trusted: an iteration interrupted in a notebook may have left half an update there.
        The kernel opens the lock when the process ends, however it ends.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            self.lock.acquire()
        except filelock.Timeout:
            reason = "another run, of this process or of another one, is training in this directory"
            raise BlockingIOError(errno.EWOULDBLOCK, reason, str(self.directory)) from None
        try:
            before, now = self._load(), torch.get_num_threads()
            unfinished = self.iteration < self.config.iterations
            if unfinished and before != now:
                change = f"from {before} to {now} threads"
                warnings.warn(f"{change}: the run goes on correctly, but not to the same bits", stacklevel=4)
            if unfinished or not self.checkpoint_path.exists():
                self._save()
            write_atomically(self.metrics_path, "".join(map(as_line, self.metrics)).encode())
            settings = json.dumps(asdict(self.config), indent=2)
            write_atomically(self.config_path, f"{settings}\n".encode())
            yield
        finally:
            self.lock.release()

    def _save(self) -> None:
        state = {
            "config": json.loads(json.dumps(asdict(self.config))),  # plain numbers and lists
            "policy": self.policy.state_dict(),
            "metrics": self.metrics,
            "threads": torch.get_num_threads(),
        }
        save_checkpoint(self.checkpoint_path, state)

    def _load(self) -> int:
        """Take over what the checkpoint holds, if there is one; the number of threads it was made with."""
        if not self.checkpoint_path.exists():
            for path in (self.metrics_path, self.config_path):
                if path.exists():
                    raise FileExistsError(errno.EEXIST, "no checkpoint.pt is beside this file", str(path))
            return torch.get_num_threads()
        stored, state = load_run(self.checkpoint_path)
        self._require_same_run(stored)
        with contents_of(self.checkpoint_path, "does not fit its own settings"):
            self.policy.load_state_dict(state["policy"])
            self.metrics = state["metrics"]
            self.learner.skipped = self.metrics[-1]["skipped"] if self.metrics else 0
        return state["threads"]

    def _require_same_run(self, stored: Config) -> None:
        old, new = asdict(stored), asdict(self.config)
        changed = [name for name in new if new[name] != old[name] and name not in self.FREE]
        if changed:
            details = "; ".join(f"{name} was {old[name]!r}, now {new[name]!r}" for name in changed)
            raise ValueError(f"{self.directory} holds a run with other settings: {details}")
        if self.config.iterations < stored.iterations:
            done = f"the {stored.iterations} that the run in {self.directory} has finished"
            raise ValueError(f"iterations must be at least {done}, got {self.config.iterations}")


def write_scalars(board: SummaryWriter, metrics: Metrics) -> None:
    for name, value in scalars(metrics).items():
        board.add_scalar(name, value, metrics["iteration"])


def load_run(path: Path) -> tuple[Config, dict[str, Any]]:
    """The settings of a checkpoint, their ``iterations`` being those done, and what it holds beside them."""
    state = load_checkpoint(path)
    with contents_of(path, "does not hold a run"):
        config = replace(Config.from_dict(state.pop("config")), iterations=len(state["metrics"]))
        return config, {name: state[name] for name in ("policy", "metrics", "threads")}


def load_policy(directory: Path) -> tuple[Config, MLPPolicy]:
    """The settings that led to the policy of the run in ``directory``, and the policy."""
    path = Path(directory) / "checkpoint.pt"
    config, state = load_run(path)
    with make_sampler(config, num_tasks=1, episodes_per_task=1, backend="serial") as sampler:
        policy = make_policy(config, sampler)
    with contents_of(path, "does not fit its own settings"):
        policy.load_state_dict(state["policy"])
    return config, policy
