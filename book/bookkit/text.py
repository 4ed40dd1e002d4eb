"""Markdown with mathematics, for the notes and questions that stand inside a cell's HTML output."""

from html import escape

from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin


def _mathjax(content: str, options: dict) -> str:
    """What both the book's MathJax and JupyterLab's know as mathematics, inside an output too."""
    left, right = (r"\[", r"\]") if options.get("display_mode") else (r"\(", r"\)")
    return f'<span class="math">{left}{escape(content)}{right}</span>'


_parser = MarkdownIt().use(dollarmath_plugin, renderer=_mathjax)


def markdown(text: str) -> str:
    return _parser.render(text)


def markdown_inline(text: str) -> str:
    return _parser.renderInline(text)
