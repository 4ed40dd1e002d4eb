"""The command line: ``python -m mamlrl_core train | evaluate | plot | envs``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import tyro

from .checkpoint import CheckpointError, write_atomically
from .config import PRESETS, Config

Preset = tyro.extras.subcommand_type_from_defaults(PRESETS, prefix_names=False)


@tyro.conf.configure(tyro.conf.CascadeSubcommandArgs)  # --out may stand anywhere among the settings
def train(config: tyro.conf.OmitArgPrefixes[Preset], out: Path, quiet: bool = False) -> None:
    """Train a meta-policy, or continue the run in ``out`` from where it was stopped.

    Args:
        config: where to start from; every setting can be overridden.
        out: directory of the run.
        quiet: no progress bar.
    """
    from .training import Run

    run = Run(config, out)
    try:
        metrics = run.train(progress=not quiet)
    except KeyboardInterrupt:
        sys.exit(f"stopped after iteration {run.iteration} of {config.iterations}; the same command continues the run")
    summary = f"trained {config.env} for {run.iteration} iterations"
    if metrics:
        summary += f", return by adaptation step: {', '.join(f'{r:.2f}' for r in metrics[-1]['returns'])}"
    print(f"{summary}; {out}")


def evaluate(
    run: tyro.conf.Positional[Path],
    num_tasks: int = 40,
    episodes_per_task: int = 40,
    steps: int = 3,
    step_sizes: tuple[float, ...] = (),
    seed: int = 0,
    out: Path | None = None,
) -> None:
    """Measure the return of a trained policy after 0, 1, ... gradient steps on held-out tasks.

    Args:
        run: directory of the run.
        num_tasks: held-out tasks.
        episodes_per_task: episodes per task and step.
        steps: gradient steps.
        step_sizes: of the steps, the last one repeating; the schedule of the run if empty.
        seed: of the held-out tasks.
        out: where to write the result; evaluation.json in the run's directory if not given.
    """
    from .evaluation import as_table
    from .evaluation import evaluate as evaluate_policy
    from .training import load_policy

    config, policy = load_policy(run)
    result = evaluate_policy(config, policy, num_tasks=num_tasks, episodes_per_task=episodes_per_task, steps=steps,
                             step_sizes=step_sizes, seed=seed)  # fmt: skip
    out = out or run / "evaluation.json"
    write_atomically(out, lambda file: file.write(json.dumps(asdict(result)).encode()))
    print(as_table(result))
    print(out)


def plot(results: tyro.conf.Positional[tuple[Path, ...]], out: Path = Path("evaluation.svg")) -> None:
    """Draw evaluations of one family over the published curves.

    Args:
        results: files written by ``evaluate``.
        out: the picture; its ending chooses the format.
    """
    import matplotlib.pyplot as plt

    from .evaluation import Evaluation
    from .evaluation import plot as plot_evaluations

    evaluations = [Evaluation(**json.loads(path.read_text())) for path in results]
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    plot_evaluations(evaluations, axes)
    figure.savefig(out)
    print(out)


def envs() -> None:
    """List the task families, what their agents see and do, and their presets."""
    import gymnasium

    from .envs import FAMILIES

    for env_id in FAMILIES:
        env = gymnasium.make(env_id)
        presets = ", ".join(name for name, config in PRESETS.items() if config.env == env_id)
        print(f"{env_id}\n    observation {env.observation_space}, action {env.action_space}, "
              f"horizon {env.unwrapped.horizon}\n    task {env.unwrapped.task_space}\n    preset {presets}")  # fmt: skip


def main() -> None:
    commands = {"train": train, "evaluate": evaluate, "plot": plot, "envs": envs}
    try:
        tyro.extras.subcommand_cli_from_dict(commands, prog="python -m mamlrl_core", description=__doc__)
    except (CheckpointError, FileNotFoundError, ValueError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
