"""One call that prepares a chapter: reproducible figures, and the book's style in JupyterLab."""

import sys

from IPython import get_ipython
from IPython.display import display

from . import ROOT
from .plots import setup_plots

STYLE_SHEET = ROOT / "book" / "assets" / "bookkit.css"


def setup() -> None:
    """Prepare plots, and hand the style sheet of listings, explorers and quizzes to a live notebook.

    The built book links the style sheet itself. A live notebook gets it through a widget's view: the notebook
    runner and nbval leave views out, so that the style never becomes part of a stored chapter.
    """
    setup_plots()
    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return  # no notebook, nothing to style
    style = f"<style>{STYLE_SHEET.read_text(encoding='utf-8')}</style>"
    if "google.colab" in sys.modules:  # there every output is a page of its own
        from IPython.display import HTML

        shell.events.register("pre_run_cell", lambda *_: display(HTML(style)))
        return
    import ipywidgets

    view = ipywidgets.HTML(style, layout={"display": "none"})._repr_mimebundle_()
    display({kind: data for kind, data in view.items() if "widget-view" in kind}, raw=True)
