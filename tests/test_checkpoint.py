"""Checkpoints: whole or not at all, and nothing but a checkpoint is taken for one."""

import errno
import os
import pickle
import random
import stat
import zipfile
from pathlib import Path

import pytest
import torch

from mamlrl_core.checkpoint import (
    FORMAT,
    VERSION,
    CheckpointError,
    load_checkpoint,
    require_writable,
    save_checkpoint,
    write_atomically,
)


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "checkpoint.pt"
    weights = torch.randn(20, 20, generator=torch.Generator().manual_seed(0))
    save_checkpoint(path, {"policy": {"weight": weights}, "metrics": [{"kl": None, "trials": 3}]})
    return path


class Bomb:
    """Unpickling it would write a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_what_is_saved_is_loaded_to_the_bit(stored):
    state = load_checkpoint(stored)
    expected = torch.randn(20, 20, generator=torch.Generator().manual_seed(0))
    assert torch.equal(state["policy"]["weight"], expected)
    assert state["metrics"] == [{"kl": None, "trials": 3}]
    assert os.listdir(stored.parent) == ["checkpoint.pt"]


def refused(path, match):
    content = path.read_bytes()
    with pytest.raises(CheckpointError, match=match) as refusal:
        load_checkpoint(path)
    assert str(path) in str(refusal.value) and "\n" not in str(refusal.value)
    assert path.read_bytes() == content


def test_every_truncation_is_refused(stored):
    content = stored.read_bytes()
    for length in {0, 1, len(content) - 1, *random.Random(0).sample(range(len(content)), 60)}:
        stored.write_bytes(content[:length])
        refused(stored, "truncated, damaged, or not a checkpoint")


def test_a_flipped_bit_in_a_tensor_is_noticed(stored):
    with zipfile.ZipFile(stored) as archive:
        (name,) = (name for name in archive.namelist() if "/data/" in name)
        weights = archive.read(name)
    content = bytearray(stored.read_bytes())
    at = content.index(weights)
    content[at + 100] ^= 1
    stored.write_bytes(content)
    torch.load(stored, weights_only=True)  # which by itself says nothing
    refused(stored, "wrong checksum")


def test_garbage_is_refused(tmp_path):
    rng = random.Random(0)
    for size in range(0, 400, 10):
        path = tmp_path / "checkpoint.pt"
        path.write_bytes(rng.randbytes(size))
        refused(path, "not a checkpoint")


def test_foreign_files_are_refused_and_never_run(tmp_path):
    trap = tmp_path / "trap"
    files = {
        "plain.pt": lambda path: torch.save({"weight": torch.zeros(2)}, path),
        "list.pt": lambda path: torch.save([1, 2], path),
        "bomb.pt": lambda path: torch.save(Bomb(str(trap)), path),
        "bomb.pkl": lambda path: path.write_bytes(pickle.dumps(Bomb(str(trap)))),
        "text.pt": lambda path: path.write_text("hello"),
        "zip.pt": lambda path: zipfile.ZipFile(path, "w").close(),
    }
    for name, write in files.items():
        write(tmp_path / name)
        refused(tmp_path / name, "not a checkpoint")
    assert not trap.exists()


def test_another_version_is_refused(tmp_path):
    for version in (VERSION + 1, None):
        path = tmp_path / "checkpoint.pt"
        torch.save({"format": FORMAT, "version": version}, path)
        refused(path, f"version {version}, this package reads {VERSION}")


def test_what_cannot_be_read_says_so_by_name(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"checkpoint\.pt"):
        load_checkpoint(tmp_path / "checkpoint.pt")
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failing_disk_leaves_the_old_file_and_names_it(tmp_path, monkeypatch, step):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, full)
        with pytest.raises(OSError, match=r"No space left on device: .*file") as failure:
            write_atomically(path, b"new")
    assert failure.value.errno == errno.ENOSPC and failure.value.filename == str(path)
    assert path.read_bytes() == b"old"
    write_atomically(path, b"new")  # what was left over is no obstacle
    assert path.read_bytes() == b"new" and os.listdir(tmp_path) == ["file"]


def test_the_disk_has_the_content_before_the_name(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace

    def watched_fsync(descriptor):
        kind = "directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        calls.append(f"fsync {kind}")
        fsync(descriptor)

    def watched_replace(source, target):
        calls.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    write_atomically(tmp_path / "file", b"new")
    assert calls == ["fsync file", "rename", "fsync directory"]


def test_what_would_stop_a_write_is_told_before_and_leaves_no_trace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for name in ("a", "file", "folder/a", "new/folder/a"):
        require_writable(tmp_path / name)
        require_writable(Path(name))
    for name, error in (
        ("file/a", NotADirectoryError),
        ("file/new/a", NotADirectoryError),
        ("folder", IsADirectoryError),
        ("/proc/a", (FileNotFoundError, PermissionError)),  # a folder in which even root can make no file
    ):
        with pytest.raises(error) as refusal:
            require_writable(Path(name))
        assert refusal.value.filename == name
    assert sorted(tmp_path.rglob("*")) == before
