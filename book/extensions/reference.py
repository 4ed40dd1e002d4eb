"""A Sphinx extension for the reference pages: modules as their own docstrings and comments describe them.

``.. module-reference:: policies`` becomes the module's docstring, links to the chapters that read the file,
and every public name in the order of the source. No text is written twice: where a name has no docstring, the
comment beside it serves, or the docstring of the method that it overrides.
"""

import ast
import enum
import inspect
import re
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import gymnasium
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

PACKAGE = "mamlrl_core"
LONGEST = 80  # characters of a value that is shown; a longer one is in the listing


class ModuleReference(SphinxDirective):
    required_arguments = 1

    def run(self):
        module = import_module(f"{PACKAGE}.{self.arguments[0]}".removesuffix(".__init__"))
        path = Path(module.__file__)
        self.env.note_dependency(str(path))
        source = path.read_text(encoding="utf-8")
        self.hand_over_comments(module, source)
        lines = [f".. py:module:: {module.__name__}", "", inspect.cleandoc(module.__doc__), ""]
        if chapters := ", ".join(f":doc:`/{chapter}`" for chapter in chapters_that_show(self.env, path)):
            lines += [f"Read line by line in {chapters}.", ""]
        if others := ", ".join(f":py:obj:`~{name}`" for name in handed_on(module, ast.parse(source))):
            lines += [f"Can be imported from here, too: {others}.", ""]
        for kind, name, *about in public_names(source):
            if kind == "data":
                value, comment = about
                lines += [f".. py:data:: {name}", *([f"   :value: {value}"] if value else [])]
                lines += ["", f"   {escaped(comment)}", ""]
            else:
                lines += [f".. auto{kind}:: {name}"]
                if kind == "class" and getattr(module, name).__bases__ != (object,):
                    lines += ["   :show-inheritance:"]
                lines += [""]
        return self.parse_text_to_nodes("\n".join(lines))

    @staticmethod
    def hand_over_comments(module, source):
        """To autodoc, which knows such comments only if they begin with "#:"."""
        analyzer = ModuleAnalyzer.for_module(module.__name__)
        analyzer.analyze()
        for node in ast.parse(source).body:
            for _, name, _, comment in public_data(node, source) if isinstance(node, ast.ClassDef) else ():
                if comment:
                    analyzer.attr_docs.setdefault((node.name, name), [escaped(comment), ""])


def public_names(source):
    """What a module defines, in order: ("class" or "function", name), or ("data", name, value, comment)."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield "class" if isinstance(node, ast.ClassDef) else "function", node.name
        yield from public_data(ast.Module([node], []), source)


def public_data(scope, source):
    """The names that are assigned in the body of a class, or of a module."""
    for node in scope.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            for index, one in enumerate(target.elts if isinstance(target, ast.Tuple) else [target]):
                if isinstance(one, ast.Name) and not one.id.startswith("_"):
                    value = node.value.elts[index] if several else node.value
                    text = ast.unparse(value) if value else ""
                    yield "data", one.id, text if len(text) <= LONGEST else "", comment_on(node, source)


def comment_on(node, source):
    """The comment on the last line of a statement, or else the comment on the lines above it."""
    lines = source.splitlines()
    line = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode()
    if found := re.match(r"\s+# (?!noqa|fmt)(.+)", line):
        return found[1]
    above = []
    for line in reversed(lines[: node.lineno - 1]):
        if not re.match(r"\s*# (?!-)", line):
            break
        above.insert(0, line.strip().removeprefix("# "))
    return " ".join(above)


def escaped(text):
    """Plain text as reStructuredText, in which double backquotes keep their meaning."""
    pieces = re.split(r"(``.+?``)", text)
    return "".join(p if p.startswith("``") else re.sub(r"([\\*|_`])", r"\\\1", p) for p in pieces)


def handed_on(module, tree):
    """The names that a module lists as its own, and gets from others of the package."""
    listed = set(getattr(module, "__all__", ()))
    for name, home in getattr(module, "_HOME", {}).items():  # loaded when they are first used
        yield f"{PACKAGE}.{home}.{name}"
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level:
            yield from (f"{module.__name__}.{node.module}.{a.name}" for a in node.names if a.name in listed)


def chapters_that_show(env, path):
    """The chapters in whose stored listings a file is."""
    file = path.relative_to(Path(import_module(PACKAGE).__file__).parent).as_posix()
    for document in sorted(env.found_docs):
        notebook = Path(env.doc2path(document))
        if notebook.suffix == ".ipynb" and file in files_shown(notebook):
            env.note_dependency(str(notebook))
            yield document


@cache
def files_shown(notebook):
    return set(re.findall(r'data-file=\\"(.+?)\\"', notebook.read_text(encoding="utf-8")))


def complete_docstring(app, what, name, obj, options, lines):
    """A method without a docstring has that of the method it overrides, if this is ours."""
    if lines and lines[0].startswith("Alias for field number"):  # a named tuple's own words
        lines.clear()
    owner, _, member = name.rpartition(".")
    if what in ("method", "property") and not any(lines) and (cls := find_class(owner)):
        docs = (vars(base)[member].__doc__ for base in cls.__mro__ if member in vars(base) and is_ours(base))
        lines[:] = inspect.cleandoc(next(filter(None, docs), "")).splitlines()
    if what != "attribute":  # a bar is a bar: |x| is no substitution here
        bar = re.compile(r"(``.+?``|^ *>>> .*)|\|")
        lines[:] = [bar.sub(lambda found: found[1] or r"\|", line) for line in lines]
    AS_WRITTEN[name] = list(lines)


def mend_napoleon(app, what, name, obj, options, lines):
    """A property's "Mean return: (N,)" is no type and its description; an argument's "N." no list's item."""
    if what in ("attribute", "property"):
        lines[:] = AS_WRITTEN[name]
    text = re.sub(r"^(:param .+:)\n +(\w\.)$", r"\1 \\\2", "\n".join(lines), flags=re.MULTILINE)
    lines[:] = text.splitlines()


AS_WRITTEN = {}  # docstrings before Napoleon, by name


def find_class(name):
    module, _, qualified = name.rpartition(".")
    try:
        found = getattr(import_module(module), qualified, None)
    except ImportError:
        return None
    return found if inspect.isclass(found) else None


def is_ours(cls):
    return cls.__module__.partition(".")[0] == PACKAGE


def without_fields(app, what, name, obj, options, signature, returns):
    """No arguments where these are fields, which follow one by one; and none of an enumeration."""
    if what == "class" and (is_dataclass(obj) or hasattr(obj, "_fields") or issubclass(obj, enum.Enum)):
        return "", None
    return None


def accept_foreign_name(app, env, node, content):
    """A name of another package is shown as it is: to look it up, the build would need the network."""
    if node.get("refdomain") != "py":
        return None
    first, _, rest = node["reftarget"].partition(".")
    known = vars(import_module(node["py:module"])) if node.get("py:module") else {}
    found = known.get(first) or vars(gymnasium.error).get(first)
    unknown = first if rest else PACKAGE  # "torch.Tensor" is clear enough; a single word must be ours
    home = found.__name__ if inspect.ismodule(found) else getattr(found, "__module__", unknown)
    return None if home.partition(".")[0] == PACKAGE else content


def setup(app):
    app.setup_extension("sphinx.ext.autodoc")
    app.add_directive("module-reference", ModuleReference)
    app.connect("autodoc-process-docstring", complete_docstring, priority=400)  # before Napoleon
    app.connect("autodoc-process-docstring", mend_napoleon, priority=600)  # after it
    app.connect("autodoc-process-signature", without_fields)
    app.connect("missing-reference", accept_foreign_name, priority=900)  # after all who may know it
    return {"parallel_read_safe": True, "parallel_write_safe": True}
