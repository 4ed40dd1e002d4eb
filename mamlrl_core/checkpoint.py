"""Checkpoints that a crash cannot spoil: either the old one is on disk, or the new one, and nothing between."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch

FORMAT = "mamlrl-checkpoint"
VERSION = 1


class CheckpointError(RuntimeError):
    """A file that should be a checkpoint cannot be used as one."""


def write_atomically(path: Path, write) -> None:
    """Let ``write(file)`` fill a temporary file, force it to disk, and rename it to ``path``.

    A rename within a directory is atomic: whoever opens ``path``, also after a power cut, finds one whole file.
    """
    temporary = path.with_name(path.name + ".partial")
    with open(temporary, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)  # the rename itself lives in the directory
    finally:
        os.close(directory)


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Store ``state``: tensors, numbers, strings, and lists and dicts of them."""
    write_atomically(path, lambda file: torch.save({"format": FORMAT, "version": VERSION, **state}, file))


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The state stored at ``path``.

    The file is read with ``weights_only=True``: it can hold data, never code.

    Raises:
        FileNotFoundError: if there is no such file.
        CheckpointError: if it is truncated, not a checkpoint of this package, or of another version.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError, zipfile.BadZipFile, ValueError, KeyError) as error:
        raise CheckpointError(f"{path} is truncated, damaged, or not a checkpoint ({type(error).__name__})") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise CheckpointError(f"{path} is a PyTorch file, but not a checkpoint of mamlrl_core")
    if state["version"] != VERSION:
        raise CheckpointError(f"{path} has checkpoint version {state['version']}, this package reads {VERSION}")
    return state
