"""What the chapters import beside the package: listings, plots, explorers, quizzes and graders.

A chapter begins with

    from bookkit import Walk, show
    import bookkit

    bookkit.setup()
"""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# On Binder and Colab the package need not be installed: the clone around this folder has it.
if importlib.util.find_spec("mamlrl_core") is None:
    sys.path.insert(0, str(ROOT))

from .exercise import check  # noqa: E402
from .explorer import Explorer, Frame, Knob, navigation_frame  # noqa: E402
from .fault import expect  # noqa: E402
from .page import setup  # noqa: E402
from .quiz import Choice, Question, Quiz  # noqa: E402
from .source import Walk, show  # noqa: E402

__all__ = [
    "Choice",
    "Explorer",
    "Frame",
    "Knob",
    "Question",
    "Quiz",
    "Walk",
    "check",
    "expect",
    "navigation_frame",
    "setup",
    "show",
]
