"""Meta-learning for reinforcement learning: train a policy that adapts, and measure how well it does."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from pathlib import Path

if __name__ == "__main__":  # from here on Ctrl-C simply ends the program: no file is ever left half-written
    signal.signal(signal.SIGINT, signal.SIG_DFL)

# Before PyTorch is loaded: its idle threads shall sleep, not spin on a core that a simulation wants.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import gymnasium
import tyro
from gymnasium.error import DependencyNotInstalled

from .config import PRESETS, Config
from .metrics import in_words

Preset = tyro.extras.subcommand_type_from_defaults(PRESETS, prefix_names=False)


@tyro.conf.configure(tyro.conf.CascadeSubcommandArgs)  # --out may stand anywhere among the settings
def train(
    config: tyro.conf.OmitArgPrefixes[Preset] = PRESETS["navigation-2d"],
    out: Path | None = None,
    quiet: bool = False,
) -> None:
    """Train a meta-policy, or continue a run from where it was stopped.

    Args:
        config: where to start from; every setting can be overridden.
        out: directory of the run; runs/PRESET-METHOD-SEED if not given.
        quiet: no progress bar.
    """
    from .training import Run

    with Run(config, out or default_directory(config)) as run:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            every = 0.1 if sys.stderr.isatty() else 30.0  # a log file wants few lines
            metrics = run.train(progress=not quiet, every=every)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not cut the goodbye short
            done = f"{run.iteration} of {config.iterations} iterations"
            print(f"stopped after {done}; the same command continues the run", file=sys.stderr)
            sys.exit(128 + signal.SIGINT)
    if metrics:
        print(f"{in_words(metrics[-1])} in the last iteration; {metrics[-1]['skipped']} updates skipped")
    print(f"{run.directory}: {config.env}, {config.method}, {len(metrics)} iterations")


def default_directory(config: Config) -> Path:
    """Where a run goes that is not told.

    >>> default_directory(PRESETS["tabular-mdp"]).name
    'tabular-mdp-maml-1'
    """
    presets = (name for name, preset in PRESETS.items() if preset.env == config.env)
    family = next(presets, config.env.replace("/", "-").replace(":", "-"))
    return Path("runs") / f"{family}-{config.method}-{config.seed}"


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
    from . import comparison, evaluation
    from .checkpoint import require_writable
    from .training import load_policy

    out = out or run / "evaluation.json"
    config, policy = load_policy(run)
    require_writable(out)
    result = evaluation.evaluate(
        config,
        policy,
        num_tasks=num_tasks,
        episodes_per_task=episodes_per_task,
        steps=steps,
        step_sizes=step_sizes,
        seed=seed,
    )
    result.save(out)
    print(result)
    print(comparison.as_table([result]))
    print(out)


def plot(results: tyro.conf.Positional[tuple[Path, ...]], out: Path = Path("evaluation.svg")) -> None:
    """Hold evaluations of one family against the published figures: a table, and a picture.

    Args:
        results: files written by evaluate; training seeds of one method are drawn together.
        out: the picture; its ending chooses the format.
    """
    from matplotlib.figure import Figure

    from . import comparison
    from .evaluation import Evaluation

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    if out.suffix[1:].lower() not in figure.canvas.get_supported_filetypes():
        raise ValueError(f"the picture's name must end in .svg, .png, .pdf or the like, got {str(out)!r}")
    evaluations = [Evaluation.load(path) for path in results]
    comparison.plot(evaluations, figure.subplots())
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)
    print(comparison.as_table(evaluations))
    print(out)


def render(
    run: tyro.conf.Positional[Path],
    out: Path | None = None,
    steps: int = 1,
    num_tasks: int | None = None,
    episodes_per_task: int = 20,
    seed: int = 0,
    width: int = 640,
    every: int = 2,
) -> None:
    """Film a body before and after it has adapted. No screen is needed.

    Args:
        run: directory of the run.
        out: a .gif or .mp4; render.gif in the run's directory if not given. A still, .png, goes beside it.
        steps: gradient steps.
        num_tasks: held-out tasks; if not given two, or both directions.
        episodes_per_task: episodes per task and step. The first one is shown.
        seed: of the held-out tasks.
        width: of the film, in pixels.
        every: draw every second, third, ... step of an episode.
    """
    from . import rendering
    from .checkpoint import require_writable
    from .training import load_policy

    out = out or run / "render.gif"
    rendering.require_format(out)
    config, policy = load_policy(run)
    require_writable(out)
    film = rendering.render(
        config,
        policy,
        steps=steps,
        num_tasks=num_tasks,
        episodes_per_task=episodes_per_task,
        seed=seed,
        width=width,
        every=every,
    )
    still = film.save(out)
    for before, after in zip(*film.rows, strict=True):
        returns = f"return {before.rewards.sum():.1f} before, {after.rewards.sum():.1f} after"
        print(f"{rendering.in_words(before.task)}: {returns}")
    print(out)
    print(still)


def envs(check: str | None = None) -> None:
    """List the task families: what a task holds, what an agent sees and does, the preset to train with.

    Args:
        check: instead, find out whether this family can be trained on. MODULE:ID, here and for --env of
            train, imports the module that registers the family.
    """
    from .envs import FAMILIES, check_task_env

    if check is not None:
        print(f"{check} keeps all {len(check_task_env(check))} promises of a task family")
        return
    for env_id in FAMILIES:
        presets = ", ".join(name for name, config in PRESETS.items() if config.env == env_id)
        try:
            family = gymnasium.make(env_id).unwrapped
        except DependencyNotInstalled as error:
            print(f"{env_id}\n    {error}\n    preset       {presets}\n")
            continue
        about, *_ = (type(family).__doc__ or "").splitlines()
        tasks = ", ".join(f"{name} {describe(space)}" for name, space in family.task_space.items())
        print(f"{env_id}\n    {about}")
        print(f"    task         {tasks}")
        print(f"    observation  {describe(family.observation_space)}")
        print(f"    action       {describe(family.action_space)}")
        print(f"    horizon      {family.horizon} steps")
        print(f"    preset       {presets}\n")


def describe(space: gymnasium.Space) -> str:
    """A space in a few words.

    >>> describe(gymnasium.spaces.Discrete(5)), describe(gymnasium.spaces.Box(-1.0, 1.0, (2,)))
    ('0..4', '(2,) in [-1, 1]')
    """
    if isinstance(space, gymnasium.spaces.Discrete):
        return f"{space.start}..{space.start + space.n - 1}"
    low, high = space.low.min(), space.high.max()
    return f"{space.shape}" if low == -high == -float("inf") else f"{space.shape} in [{low:g}, {high:g}]"


def main() -> None:
    """Run a command. What a user can put right is told in one line; ``python -X dev`` shows the traceback."""
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    commands = {"train": train, "evaluate": evaluate, "plot": plot, "render": render, "envs": envs}
    try:
        tyro.extras.subcommand_cli_from_dict(commands, prog="python -m mamlrl_core", description=__doc__)
    except BrokenPipeError:  # whoever reads our output, ``head`` for instance, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, MemoryError, DependencyNotInstalled) as error:
        if sys.flags.dev_mode:
            raise
        named = isinstance(error, OSError) and error.filename
        sys.exit(f"error: {error.filename}: {error.strerror}" if named else f"error: {error}")


if __name__ == "__main__":
    main()
