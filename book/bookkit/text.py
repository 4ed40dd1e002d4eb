"""Markdown with mathematics, for the notes and questions that stand inside a cell's HTML output."""

import re
from html import escape

from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin


def _mathjax(content: str, options: dict) -> str:
    """What both the book's MathJax and JupyterLab's know as mathematics, inside an output too."""
    left, right = (r"\[", r"\]") if options.get("display_mode") else (r"\(", r"\)")
    return f'<span class="math">{left}{escape(content)}{right}</span>'


_parser = MarkdownIt().use(dollarmath_plugin, renderer=_mathjax)


def markdown(text: str) -> str:
    """HTML. Links need words of their own: only in a page's text does `[](…)` become a chapter's title."""
    page = _parser.render(text)
    if bare := re.search(r'<a href="([^"]*)"></a>', page):
        raise ValueError(f"the link to {bare[1]} has no words")
    return page


def markdown_inline(text: str) -> str:
    return _parser.renderInline(text)
