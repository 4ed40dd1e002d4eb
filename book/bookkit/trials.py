"""Trials: runs that were made to choose a setting, or to find out what holds a run back.

`python -m bookkit.trials FAMILY RUN ...` in `book/` keeps what they tell, and not their policies, in
`data/FAMILY/trials.json`.
"""

import json
import sys
from pathlib import Path

from mamlrl_core.checkpoint import write_atomically
from mamlrl_core.evaluation import Evaluation
from mamlrl_core.training import load_run

from .comparison import DATA
from .provenance import changed_settings


def trial(run: Path) -> dict:
    """Settings other than the preset's, the learning curve, and the evaluation if there is one."""
    config, state = load_run(run / "checkpoint.pt")
    settings = {k: v for k, v in changed_settings(config).items() if k not in ("iterations", "seed")}
    kept = {
        "settings": settings,
        "seed": config.seed,
        "threads": state["threads"],
        "returns": [[round(value, 1) for value in row["returns"]] for row in state["metrics"]],
    }
    if (run / "evaluation.json").exists():
        evaluation = Evaluation.load(run / "evaluation.json")
        kept["held_out"] = {"seed": evaluation.seed, "returns": evaluation.mean.round(1).tolist()}
    return kept


def main(family: str, runs: list[str]) -> None:
    kept = [trial(Path(run)) for run in runs]
    path = DATA / family / "trials.json"
    write_atomically(path, json.dumps(kept, separators=(",", ":")).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
