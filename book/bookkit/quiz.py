"""Questions that answer back: plain HTML radio buttons, each with the reason why it is right or wrong.

Nothing is sent anywhere. Without a script, or in a viewer that strips it, the folded list of answers remains.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from .text import markdown_inline

SCRIPT = (Path(__file__).parent / "quiz.js").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Choice:
    """One answer and its reason: say why it is right, or where the thought behind it goes wrong. Markdown."""

    text: str
    reason: str
    correct: bool = False


@dataclass(frozen=True)
class Question:
    """A question with exactly one right choice."""

    text: str
    choices: Sequence[Choice]

    def __post_init__(self):
        right = sum(choice.correct for choice in self.choices)
        if right != 1:
            raise ValueError(f"a question needs exactly one correct choice, {self.text!r} has {right}")


class Quiz:
    """Questions to answer in the page, in the built book and in JupyterLab alike."""

    def __init__(self, *questions: Question):
        self.questions = questions

    def _repr_html_(self) -> str:
        uid = "bq-" + hashlib.sha256(repr(self.questions).encode()).hexdigest()[:10]
        blocks = "\n".join(self._question_html(f"{uid}-{i}", i, q) for i, q in enumerate(self.questions, 1))
        answers = "".join(
            f"<li>{markdown_inline(c.text)}: {markdown_inline(c.reason)}</li>"
            for q in self.questions
            for c in q.choices
            if c.correct
        )
        return (
            f'<div class="bk-quiz" data-quiz="{uid}">\n{blocks}\n'
            f"<details><summary>All answers</summary><ol>{answers}</ol></details>\n"
            f"<script>{SCRIPT.replace('UID', uid)}</script>\n</div>"
        )

    @staticmethod
    def _question_html(name: str, number: int, question: Question) -> str:
        choices = "\n".join(
            f'<label><input type="radio" name="{name}"'
            f' data-verdict="{"Right." if c.correct else "Not quite."}"'
            f' data-reason="{escape(markdown_inline(c.reason))}">'
            f" <span>{markdown_inline(c.text)}</span></label>"
            for c in question.choices
        )
        return (
            f"<fieldset>\n<legend>{number}. {markdown_inline(question.text)}</legend>\n{choices}\n"
            f'<p class="bk-reason" role="status" aria-live="polite"></p>\n</fieldset>'
        )

    def __repr__(self) -> str:
        lines = []
        for number, question in enumerate(self.questions, 1):
            lines.append(f"{number}. {question.text}")
            lines += [f"   ({chr(97 + i)}) {choice.text}" for i, choice in enumerate(question.choices)]
        lines.append("Answers")
        for number, question in enumerate(self.questions, 1):
            right = next(i for i, choice in enumerate(question.choices) if choice.correct)
            lines.append(f"   {number} ({chr(97 + right)}) {question.choices[right].reason}")
        return "\n".join(lines)
