"""How a stored run was made: `python -m bookkit.provenance RUN` in `book/` notes it down.

The note goes into `provenance.json` beside the run's folder. That of a run whose result did not change stays
as it is, and so keeps the commit, the machine and the time that the run was really made with.
"""

import hashlib
import json
import platform
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from mamlrl_core.checkpoint import write_atomically
from mamlrl_core.config import PRESETS, Config
from mamlrl_core.evaluation import installed_versions
from mamlrl_core.training import load_run


def git(*command: str) -> str:
    return subprocess.run(["git", *command], capture_output=True, text=True, check=True).stdout.strip()


def processors() -> str:
    """How many there are, and of what kind."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.processor()


def describe(run: Path) -> dict:
    """What anybody needs who wants to make the run in the folder `run` again, and what it took."""
    config, state = load_run(run / "checkpoint.pt")
    changed = git("status", "--porcelain", "--", ":/mamlrl_core")
    seconds = sum(row["sample_seconds"] + row["step_seconds"] for row in state["metrics"])
    return {
        "evaluation_sha256": digest(run),
        "settings": changed_settings(config),
        "git_commit": git("rev-parse", "HEAD") + ("-dirty" if changed else ""),
        "python": platform.python_version(),
        **installed_versions(),
        "threads": state["threads"],
        "cpu": processors(),
        "training_seconds": round(seconds, 1),
    }


def changed_settings(config: Config) -> dict:
    """The settings in which a run differs from the preset of its family."""
    preset = next(asdict(preset) for preset in PRESETS.values() if preset.env == config.env)
    return {name: value for name, value in asdict(config).items() if value != preset[name]}


def digest(run: Path) -> str:
    return hashlib.sha256((run / "evaluation.json").read_bytes()).hexdigest()


def main(run: Path) -> None:
    path = run.parent / "provenance.json"
    notes = json.loads(path.read_text()) if path.exists() else {}
    if notes.get(run.name, {}).get("evaluation_sha256") != digest(run):
        notes[run.name] = describe(run)
        write_atomically(path, (json.dumps(notes, indent=1) + "\n").encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
