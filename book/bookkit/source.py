"""Source listings: the package's own files, with their real line numbers, as a cell's output.

`show` draws one piece of a file, named by symbol, by object or by lines. `Walk` reads a file from its first
line to its last in consecutive pieces, so that a chapter can promise that nothing was left out. The text is
read from the file each time a cell runs: a stored listing that no longer equals its file is a failing test.
"""

import ast
import inspect
from html import escape
from importlib.util import find_spec
from pathlib import Path

from pygments.lexers.python import PythonLexer
from pygments.token import Token

from . import ROOT
from .text import markdown

PACKAGE = "mamlrl_core"

# A handful of classes of our own. Pygments' style sheet changes between releases, and with it stored HTML
# would.
TOKEN_CLASSES = [
    (Token.Comment, "c"),
    (Token.Literal.String.Doc, "d"),
    (Token.Literal.String, "s"),
    (Token.Literal.Number, "n"),
    (Token.Keyword, "k"),
    (Token.Operator.Word, "k"),
    (Token.Name.Function, "f"),
    (Token.Name.Class, "f"),
    (Token.Name.Decorator, "o"),
    (Token.Name.Builtin, "b"),
    (Token.Name.Exception, "b"),
]


def package_file(path: str) -> Path:
    """The file `path`, relative to the package's folder, say `"envs/base.py"`."""
    spec = find_spec(PACKAGE)
    folder = Path(spec.submodule_search_locations[0]) if spec else ROOT / PACKAGE
    file = folder / path
    if not file.is_file():
        raise FileNotFoundError(f"{PACKAGE} has no file {path!r}")
    return file


def read_lines(path: str) -> list[str]:
    """The file's lines without their line ends; element i is line i + 1."""
    return package_file(path).read_text(encoding="utf-8").splitlines()


def symbol_lines(path: str, symbol: str) -> tuple[int, int]:
    """First and last line of a class, function, method or assignment, e.g. `"EnvWorker.run"`.

    Decorators belong to the piece; so do the comment lines that stand directly above it.
    """
    lines = read_lines(path)
    body = ast.parse("\n".join(lines)).body
    for part in symbol.split("."):
        node = next((n for n in body if part in _names(n)), None)
        if node is None:
            raise LookupError(f"{path} has no symbol {symbol!r}")
        body = getattr(node, "body", [])
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    while first > 1 and lines[first - 2].lstrip().startswith("#"):
        first -= 1
    return first, node.end_lineno


def _names(node: ast.stmt) -> set[str]:
    """The names that a statement binds."""
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {t.id for t in targets if isinstance(t, ast.Name)}


def highlight(text: str) -> list[str]:
    """Each line of a Python source as HTML, in the token classes above."""
    rows = [""]
    for kind, value in PythonLexer(stripnl=False, ensurenl=False).get_tokens(text):
        css = next((css for parent, css in TOKEN_CLASSES if kind in parent), None)
        for i, part in enumerate(value.split("\n")):
            if i:
                rows.append("")
            if part:
                rows[-1] += f'<span class="{css}">{escape(part)}</span>' if css else escape(part, quote=False)
    return rows


class Listing:
    """Lines `first` to `last` of a package file, both included, with an optional note beside them."""

    def __init__(self, path: str, first: int, last: int, note: str = ""):
        count = len(read_lines(path))
        if not 1 <= first <= last <= count:
            raise ValueError(f"{path} has lines 1 to {count}: cannot show {first} to {last}")
        self.path, self.first, self.last, self.note = path, first, last, inspect.cleandoc(note)

    @property
    def title(self) -> str:
        return f"{PACKAGE}/{self.path}, lines {self.first} to {self.last}"

    def _repr_html_(self) -> str:
        text = "\n".join(read_lines(self.path))
        rows = highlight(text)[self.first - 1 : self.last]
        width = len(str(self.last))
        # The blank after the number is text: without a style sheet the listing still reads well.
        code = "\n".join(
            f'<span class="bk-no">{number:>{width}} </span>{row}'
            for number, row in enumerate(rows, self.first)
        )
        note = f'<div class="bk-note">{markdown(self.note)}</div>' if self.note else ""
        return (
            f'<figure class="bk-listing" data-file="{escape(self.path)}" data-first="{self.first}"'
            f' data-last="{self.last}">\n<figcaption>{PACKAGE}/<b>{escape(self.path)}</b>'
            f' <span>{self.first}–{self.last}</span></figcaption>\n<div class="bk-sides">{note}'
            f'<pre class="bk-code" tabindex="0" role="region" aria-label="{escape(self.title)}">'
            f"{code}\n</pre>"
            "</div>\n</figure>"
        )

    def __repr__(self) -> str:
        lines = read_lines(self.path)[self.first - 1 : self.last]
        width = len(str(self.last))
        code = "\n".join(f"{n:>{width}} {line}".rstrip() for n, line in enumerate(lines, self.first))
        return "\n\n".join(part for part in (self.title, self.note, code) if part)


def show(what, symbol: str | None = None, *, lines: tuple[int, int] | None = None, note: str = "") -> Listing:
    """A piece of the package's source.

    `show("envs/base.py", "TaskEnv.reset")` by symbol, `show(TaskEnv.reset)` by object, `show("envs/base.py",
    lines=(1, 20))` by lines, `show("envs/base.py")` the whole file. Prefer symbols: they survive edits.
    """
    if not isinstance(what, str):
        what = inspect.unwrap(getattr(what, "fget", None) or what)
        module, symbol = what.__module__.split("."), what.__qualname__
        if module[0] != PACKAGE:
            raise ValueError(f"{what!r} is not part of {PACKAGE}")
        file = Path(inspect.getsourcefile(what))
        what = file.relative_to(package_file("__init__.py").parent).as_posix()
    if symbol and lines:
        raise ValueError(f"say what to show by symbol ({symbol!r}) or by lines ({lines}), not by both")
    if symbol:
        lines = symbol_lines(what, symbol)
    return Listing(what, *(lines or (1, len(read_lines(what)))), note=note)


class Walk:
    """Reads a file from its first line to its last, piece by piece.

    Each call returns the next piece, from where the last one ended: `until("class TaskEnv")` stops before the
    one line that contains the text, `through("TaskEnv.reset")` ends with the symbol, `rest()` takes what is
    left. Blank lines that follow a piece belong to it. Running a cell again returns the same piece again.
    `end()` asserts that the whole file was shown.
    """

    def __init__(self, path: str):
        self.path = path
        self._lines = read_lines(path)
        self._next = 1  # the first line not yet shown
        self._pieces: dict[tuple[str, str], tuple[int, int]] = {}

    def until(self, text: str, *, note: str = "") -> Listing:
        """Up to, not including, the only line of the file that contains `text`."""
        hits = [number for number, line in enumerate(self._lines, 1) if text in line]
        if len(hits) != 1:
            raise LookupError(
                f"{self.path}: {text!r} must stand on exactly one line, it stands on lines {hits}"
            )
        return self._piece(("until", text), hits[0] - 1, note)

    def through(self, symbol: str, *, note: str = "") -> Listing:
        """Up to and including the symbol, and the blank lines after it."""
        last = symbol_lines(self.path, symbol)[1]
        while last < len(self._lines) and not self._lines[last].strip():
            last += 1
        return self._piece(("through", symbol), last, note)

    def rest(self, *, note: str = "") -> Listing:
        """Everything that is left."""
        return self._piece(("rest", ""), len(self._lines), note)

    def end(self) -> None:
        """Raises AssertionError if lines of the file were not shown."""
        left = len(self._lines) - self._next + 1
        assert left == 0, f"{self.path}: lines {self._next} to {len(self._lines)} were not shown"

    def _piece(self, key: tuple[str, str], last: int, note: str) -> Listing:
        if key not in self._pieces:
            if last < self._next:
                raise LookupError(
                    f"{self.path}: {key[0]}({key[1]!r}) ends at line {last}, but the walk has already passed"
                    f" line {self._next - 1}; the pieces must be shown in the file's order"
                )
            self._pieces[key] = (self._next, last)
            self._next = last + 1
        return Listing(self.path, *self._pieces[key], note=note)
