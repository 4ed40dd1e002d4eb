"""Files that a crash cannot spoil: either the old one is on disk, or the new one, and nothing between."""

from __future__ import annotations

import errno
import io
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import torch

FORMAT = "mamlrl-checkpoint"
VERSION = 1


class CheckpointError(ValueError):
    """A file that should be a checkpoint cannot be used as one."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write ``content`` to a temporary file, force it to disk, and rename it to ``path``.

    A rename within a directory is atomic: whoever opens ``path``, also after a power cut, finds a whole file.

    Raises:
        OSError: naming ``path``, if that cannot be done. What was at ``path`` before is still there then.
    """
    temporary = path.with_name(path.name + ".partial")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)  # the rename itself lives in the directory
        finally:
            os.close(directory)
    except OSError as error:  # "no space left on device" comes without a name
        raise OSError(error.errno, error.strerror, str(path)) from error


def require_writable(path: Path) -> None:
    """Say what would stop ``write_atomically``, before hours of work are done for it; leave no trace.

    Raises:
        OSError: naming ``path``, if no file can be made in its folder, or where that folder is to be made.
    """
    try:
        if path.is_dir():
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        folder = next(folder for folder in path.absolute().parents if folder.exists())
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Store ``state``: tensors, numbers, strings, and lists and dicts of them."""
    file = io.BytesIO()
    torch.save({"format": FORMAT, "version": VERSION, **state}, file)
    write_atomically(path, file.getvalue())


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The state stored at ``path``.

    The file is read with ``weights_only=True``: it can hold data, never code.

    Raises:
        OSError: if the file is missing or cannot be read.
        CheckpointError: if it is truncated, damaged, not a checkpoint of this package, or of another version.
    """
    file = io.BytesIO(Path(path).read_bytes())
    with contents_of(path, "is truncated, damaged, or not a checkpoint"):
        if zipfile.ZipFile(file).testzip():  # torch.load does not look at the checksums that torch.save wrote
            raise ValueError("wrong checksum")
        file.seek(0)
        state = torch.load(file, map_location="cpu", weights_only=True)
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise CheckpointError(f"{path} is a PyTorch file, but not a checkpoint of mamlrl_core")
    version = state.get("version")
    if version != VERSION:
        raise CheckpointError(f"{path} has checkpoint version {version}, this package reads {VERSION}")
    return state


@contextmanager
def contents_of(path: Path, complaint: str) -> Iterator[None]:
    """Whatever goes wrong inside the block is the fault of the file at ``path``: say so, in one line."""
    try:
        yield
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise CheckpointError(f"{path} {complaint} ({type(error).__name__}: {reason})") from error
