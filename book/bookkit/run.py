"""Runs chapters and stores their outputs in one normal form: `python -m bookkit.run [--check] [chapters
...]`.

A second run writes the same bytes. `--check` writes nothing: it runs the chapters, compares what comes out
with what is stored, shows the difference and exits with 1. Cells tagged `nbval-ignore-output` (training, say)
run in full, and an error in them counts, but their output may differ.
"""

import argparse
import difflib
import hashlib
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from . import ROOT

IGNORE = "nbval-ignore-output"
KEPT_METADATA = ("jupyter", "mystnb", "tags")
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}


def execute(
    notebook: nbformat.NotebookNode, folder: Path, timeout: int | None = None
) -> nbformat.NotebookNode:
    """Run a copy of the notebook in a fresh kernel whose working directory is `folder`."""
    notebook = nbformat.from_dict(notebook)
    options = {
        "record_timing": False,
        "store_widget_state": False,
        "kernel_name": "python3",
        "timeout": timeout,
    }
    NotebookClient(notebook, resources={"metadata": {"path": str(folder)}}, **options).execute()
    return normalise(notebook)


def normalise(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The stored form: nothing in it tells of the machine, the front end or how often a cell was run."""
    notebook = nbformat.from_dict(notebook)
    notebook.metadata = nbformat.from_dict(NOTEBOOK_METADATA)
    count = 0
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict(
            {k: v for k, v in sorted(cell.metadata.items()) if k in KEPT_METADATA}
        )
        cell.pop("attachments", None)
        if cell.cell_type != "code":
            continue
        if not cell.source.strip():
            raise ValueError("an empty code cell; remove it")
        count += 1
        cell.execution_count = count
        cell.outputs = list(_outputs(cell.outputs, count))
    return notebook


def _outputs(outputs: list, count: int) -> Iterator[nbformat.NotebookNode]:
    """Outputs without widget views and without the accident of how a stream was cut into pieces."""
    stream = None
    for output in outputs:
        if stream is not None and output.output_type == "stream" and output.name == stream.name:
            stream.text += output.text
            continue
        if stream is not None:
            yield stream
            stream = None
        if output.output_type == "stream":
            stream = output
            continue
        if output.output_type == "error":
            output.traceback = [_without_machine(line) for line in output.traceback]
        else:
            if output.output_type == "execute_result":
                output.execution_count = count
            output.metadata = nbformat.from_dict({})
            output.data = {kind: data for kind, data in output.data.items() if "jupyter.widget" not in kind}
            if not output.data:
                continue
        yield output
    if stream is not None:
        yield stream


def _without_machine(text: str) -> str:
    """A traceback without this machine's folders and addresses."""
    text = text.replace(f"{ROOT}{os.sep}", "")
    text = re.sub(r"(?:~|/)[^\s:\"']*?/(?:site-packages|lib/python3\.\d+)/", "", text)
    return re.sub(r"0x[0-9a-f]{6,}", "0x…", text)


def differences(stored: nbformat.NotebookNode, fresh: nbformat.NotebookNode) -> Iterator[str]:
    """What changed between two notebooks, as readable lines."""
    if dumps(stored) != dumps(normalise(stored)):
        yield "not in normal form: run it without --check first\n"
    for number, (old, new) in enumerate(zip(stored.cells, fresh.cells, strict=True), 1):
        if old.cell_type != "code" or IGNORE in old.metadata.get("tags", []):
            continue
        before, after = ([*_readable(cell)] for cell in (old, new))
        if before != after:
            yield f"cell {number}: {old.source.splitlines()[0]}\n"
            yield from difflib.unified_diff(before, after, "stored", "fresh", n=1)


def _readable(cell: nbformat.NotebookNode) -> Iterator[str]:
    """A code cell's outputs as lines for a diff."""
    for output in cell.outputs:
        if output.output_type == "stream":
            parts = {output.name: output.text}
        elif output.output_type == "error":
            parts = {"error": f"{output.ename}: {output.evalue}"}
        else:
            parts = output.data
        for kind, data in sorted(parts.items()):
            text = data if isinstance(data, str) else repr(data)
            for line in text.splitlines() or [""]:
                if len(line) > 400:  # a picture or a sweep: nobody reads it, but a change must show
                    line = f"{line[:400]}… (SHA-256 {hashlib.sha256(line.encode()).hexdigest()[:12]})"
                yield f"[{kind}] {line}\n"


def dumps(notebook: nbformat.NotebookNode) -> str:
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def run(path: Path, check: bool = False, timeout: int | None = None) -> str:
    """Run one chapter. Returns what went wrong, "" if nothing did."""
    stored = nbformat.read(path, as_version=4)
    try:
        fresh = execute(stored, path.parent, timeout)
    except CellExecutionError as error:
        return re.sub(r"\x1b\[[0-9;]*m", "", _without_machine(error.traceback)) + "\n"
    except (CellTimeoutError, DeadKernelError, ValueError) as error:
        return f"{error}\n"
    if check:
        return "".join(differences(stored, fresh))
    text = dumps(fresh)
    if text != path.read_text(encoding="utf-8"):
        draft = path.with_suffix(".tmp")  # a chapter is replaced whole or not at all
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    return ""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bookkit.run", description=__doc__.split("\n")[0])
    parser.add_argument("chapters", nargs="*", type=Path, help="notebooks (default: all beside this package)")
    parser.add_argument("--check", action="store_true", help="compare with the stored outputs, write nothing")
    parser.add_argument(
        "--timeout", type=int, default=1800, help="seconds a cell may take (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    failed = []
    for path in options.chapters or sorted((ROOT / "book").glob("[0-9]*.ipynb")):
        started = time.monotonic()
        problem = run(path, options.check, options.timeout)
        print(
            f"{'FAILED' if problem else 'ok':6} {path.name}  {time.monotonic() - started:.1f} s", flush=True
        )
        if problem:
            print(problem, end="", flush=True)
            failed.append(path.name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
