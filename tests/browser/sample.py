"""A chapter in small: every device of `bookkit` on one page, without training, for the browser tests."""

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

SETUP = """\
import bookkit
from bookkit import Choice, Explorer, Knob, Question, Quiz, Walk, check, navigation_frame, show

bookkit.setup()"""

LISTING = """\
show("envs/base.py", lines=(1, 24), note=r'''
A note beside the code, with `code` and $\\theta' = \\theta - \\alpha \\nabla L$.
''')"""

FIGURE = """\
import numpy as np
from matplotlib import pyplot as plt
from bookkit.plots import learning_curve

fig, ax = plt.subplots()
steps = np.arange(20)
learning_curve(ax, -40 * np.exp(-steps / 5) - np.array([[1], [2], [4]]), "before adaptation")
learning_curve(ax, -20 * np.exp(-steps / 4) - np.array([[1], [2], [4]]), "after one step")
ax.set(xlabel="iteration", ylabel="return")
ax.legend();"""

EXPLORER = """\
GOALS = {
    "corners": [[0.4, 0.4], [-0.4, 0.4], [0.4, -0.4], [-0.4, -0.4]],
    "sides": [[0.3, 0.0], [-0.3, 0.0], [0.0, 0.3], [0.0, -0.3]],
}


def frame(alpha, k, goals):
    # Stands in for an adapted policy: the nearer to the goal, the larger alpha * k.
    goals = np.array(GOALS[goals])
    reach = min(0.9, 2 * alpha * k)
    paths = [goal * reach * np.linspace(0, 1, 30)[:, None] for goal in goals]
    return navigation_frame(paths, goals, -50 * (1 - reach) * np.linalg.norm(goals, axis=1))


Explorer(
    "Adapted trajectories",
    [
        Knob("alpha", "step size α", [0.05, 0.1, 0.2], start=0.1),
        Knob("k", "gradient steps", [0, 1, 2, 3], start=1),
        Knob("goals", "goals", list(GOALS)),
    ],
    frame,
    recompute=frame,
)"""

QUIZ = """\
Quiz(
    Question(
        "Which parameters does the *outer* loop change?",
        [
            Choice(r"The initial parameters $\\theta$", "Every task starts from them.", correct=True),
            Choice("The adapted parameters", "Those are thrown away after each meta-step."),
        ],
    )
)"""

GRADER = "check(lambda x: x + 1, [((1,), 2), ((np.zeros(3),), np.ones(3))])"


def sample_chapter() -> nbformat.NotebookNode:
    figure = {"image": {"alt": "Two learning curves"}, "figure": {"caption": "Two learning curves."}}
    cells = [
        new_markdown_cell("# A sample chapter\n\nEvery device once. $e^{i\\pi} = -1$.\n\n## Listing"),
        new_code_cell(SETUP),
        new_code_cell(LISTING, metadata={"tags": ["full-width", "remove-input"]}),
        new_markdown_cell("## Figure"),
        new_code_cell(FIGURE, metadata={"mystnb": figure}),
        new_markdown_cell("## Explorer\n\n:::{note}\nMove a slider.\n:::"),
        new_code_cell(EXPLORER),
        new_markdown_cell("## Questions"),
        new_code_cell(QUIZ),
        new_code_cell(GRADER),
    ]
    for number, cell in enumerate(cells):
        cell.id = f"sample-{number}"
    return new_notebook(cells=cells)
