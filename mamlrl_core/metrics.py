"""What is said about an iteration: a line of JSON, numbers for TensorBoard, a few words for the screen."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

Metrics = dict[str, Any]  # of one iteration, as JSON can hold them: what is undefined is None


def finite_or_null(value: Any) -> Any:
    """``value`` as JSON can hold it: NaN and the infinities, which JSON does not know, become None.

    >>> finite_or_null({"kl": float("nan"), "returns": (1.0, float("-inf"))})
    {'kl': None, 'returns': [1.0, None]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite_or_null(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite_or_null(item) for item in value]
    return value


def as_line(metrics: Metrics) -> str:
    """One line of strict JSON.

    >>> as_line({"iteration": 0, "kl": None})
    '{"iteration": 0, "kl": null}\\n'
    """
    return json.dumps(metrics, allow_nan=False) + "\n"


def read_metrics(path: Path) -> list[Metrics]:
    """The metrics of a run, one dict per iteration. A last line that is not whole yet is left out."""
    lines = Path(path).read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def scalars(metrics: Metrics) -> dict[str, float]:
    """The numbers by their names in TensorBoard: ``return/k`` after k steps of adaptation, and ``meta/...``.

    >>> scalars({"iteration": 7, "returns": [-40.0, -11.5], "reason": "", "kl": None, "trials": 2})
    {'return/0': -40.0, 'return/1': -11.5, 'meta/trials': 2}
    """
    values = {f"return/{k}": value for k, value in enumerate(metrics["returns"])}
    values |= {f"meta/{name}": value for name, value in metrics.items() if name != "iteration"}
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def in_words(metrics: Metrics) -> str:
    """What to watch while training goes on.

    >>> in_words({"returns": [-40.04, -11.5]})
    'return -40.0 before, -11.5 after'
    """
    before, *after = ["undefined" if value is None else f"{value:.1f}" for value in metrics["returns"]]
    return f"return {before} before, {after[-1]} after" if after else f"return {before}"
