"""A figure with knobs: one object, two outputs.

In a page without a kernel an `Explorer` is plain HTML: every frame of a sweep, computed beforehand, and a few
lines of script that choose one. With a kernel it is a set of ipywidgets that recompute the frame for any
value in a knob's range. A notebook shows the second while it runs and stores the first.
"""

import hashlib
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
from IPython import get_ipython

from .plots import COLORS, GREY

SCRIPT, DRAG_SCRIPT = (
    (Path(__file__).parent / name).read_text(encoding="utf-8") for name in ("explorer.js", "explorer_drag.js")
)


@dataclass(frozen=True)
class Frame:
    """What one setting of the knobs shows: a drawing, and the same in words for screen readers."""

    svg: str
    readout: str


@dataclass(frozen=True)
class Knob:
    """One thing to turn.

    name: the argument of the functions that draw. label: what the reader sees. values: the settings of the
    static sweep; numbers make a slider, strings a choice. start: the first setting shown (default: the first
    value). step: with a kernel, a number knob moves in such steps between its smallest and largest value
    (default: whole numbers for integers, a hundredth of the range otherwise). drag: in the page the slider
    also follows a pointer over the picture. ("x", 0.1, 0.9): the first value lies at a tenth of its width,
    the last at nine tenths; "y" goes down its height. A finger drags only what is marked `data-handle`.
    """

    name: str
    label: str
    values: Sequence
    start: object = None
    step: float | None = None
    drag: tuple[str, float, float] | None = None

    def __post_init__(self):
        if len(self.values) < 2:
            raise ValueError(f"knob {self.name!r} needs at least two values, not {list(self.values)}")
        if self.start is not None and self.start not in self.values:
            raise ValueError(
                f"knob {self.name!r} cannot start at {self.start!r}: its values are {list(self.values)}"
            )
        if self.drag is not None and (self.is_choice or self.drag[0] not in ("x", "y")):
            raise ValueError(f"knob {self.name!r}: a slider drags along x or y, not {self.drag!r}")

    @property
    def is_choice(self) -> bool:
        return isinstance(self.values[0], str)

    @property
    def first(self) -> int:
        """The index of the first setting shown."""
        return 0 if self.start is None else list(self.values).index(self.start)

    def html(self, uid: str) -> str:
        control = f'id="{uid}-{self.name}" data-knob'
        if self.is_choice:
            options = "".join(
                f"<option{' selected' if i == self.first else ''}>{escape(value)}</option>"
                for i, value in enumerate(self.values)
            )
            control = f"<select {control}>{options}</select>"
        else:
            shown = [f"{value:g}" for value in self.values]
            if self.drag is not None:
                control += f' data-drag="{" ".join(map(str, self.drag))}"'
            control = (
                f'<input type="range" {control} min="0" max="{len(shown) - 1}" step="1" value="{self.first}"'
                f' aria-valuetext="{shown[self.first]}" data-values="{" ".join(shown)}">'
                f'<span class="bk-value" aria-hidden="true">{shown[self.first]}</span>'
            )
        return f'<p><label for="{uid}-{self.name}">{escape(self.label)}</label>{control}</p>'

    def widget(self):
        """The live control: any value in the range, not only those of the sweep."""
        import ipywidgets as widgets

        common = {
            "description": self.label,
            "value": self.values[self.first],
            "style": {"description_width": "initial"},
            "layout": {"width": "100%", "max_width": "32em"},
        }
        if self.is_choice:
            return widgets.Dropdown(options=list(self.values), **common)
        low, high = min(self.values), max(self.values)
        # Updated while it moves: a slider that waits for the end of a drag would not hear the keyboard. The
        # front end sends no new value while the kernel is at work on the last.
        common |= {"min": low, "max": high, "continuous_update": True}
        if all(isinstance(value, int) for value in self.values):
            return widgets.IntSlider(step=self.step or 1, **common)
        return widgets.FloatSlider(step=self.step or (high - low) / 100, readout_format=".3g", **common)


class Explorer:
    """Knobs and the frame that they choose.

    frame(**values) -> Frame draws a setting of the sweep; it is called once for every combination of the
    knobs' values, best from stored numbers, since its drawings become part of the chapter.
    recompute(**values) -> Frame answers any setting with a kernel; without it the static figure is shown
    there too.
    """

    def __init__(
        self,
        title: str,
        knobs: Sequence[Knob],
        frame: Callable[..., Frame],
        recompute: Callable[..., Frame] | None = None,
    ):
        self.title, self.knobs, self.recompute = title, list(knobs), recompute
        names = [knob.name for knob in knobs]
        # In the order of nested loops, the last knob fastest: the script computes an index the same way.
        self.frames = [
            frame(**dict(zip(names, values, strict=True)))
            for values in itertools.product(*(knob.values for knob in knobs))
        ]

    def __repr__(self) -> str:
        knobs = "; ".join(f"{knob.label}: {', '.join(map(str, knob.values))}" for knob in self.knobs)
        return f"{self.title}\n{knobs}\n{self._first_frame().readout}"

    def _first_frame(self) -> Frame:
        index = 0
        for knob in self.knobs:
            index = index * len(knob.values) + knob.first
        return self.frames[index]

    def _repr_html_(self) -> str:
        frames = json.dumps(
            [[f.svg, f.readout] for f in self.frames], ensure_ascii=False, separators=(",", ":")
        )
        frames = frames.replace("</", "<\\/")  # nothing inside a script may look like its end
        uid = "bk-" + hashlib.sha256(f"{self.title}{frames}".encode()).hexdigest()[:10]
        first = self._first_frame()
        knobs = "\n".join(knob.html(uid) for knob in self.knobs)
        script = SCRIPT + DRAG_SCRIPT * any(knob.drag is not None for knob in self.knobs)
        return (
            f'<div class="bk-explorer" data-explorer="{uid}">\n'
            f"<fieldset disabled>\n<legend>{escape(self.title)}</legend>\n{knobs}\n</fieldset>\n"
            f'<div class="bk-picture">{first.svg}</div>\n'
            f'<p class="bk-readout" role="status" aria-live="polite">{escape(first.readout)}</p>\n'
            f'<script type="application/json">{frames}</script>\n'
            f"<script>{script.replace('UID', uid)}</script>\n</div>"
        )

    def live_view(self):
        """The ipywidgets view: one control per knob, recomputing on every change."""
        import ipywidgets as widgets

        controls = {knob.name: knob.widget() for knob in self.knobs}
        picture = widgets.HTML(layout={"max_width": "32em"})
        readout = widgets.HTML()

        def redraw(*_) -> None:
            try:
                frame = self.recompute(**{name: control.value for name, control in controls.items()})
            except Exception as error:  # a callback's traceback would be lost in the log: tell the reader
                readout.value = f"<b>{escape(type(error).__name__)}</b>: {escape(str(error))}"
                return
            picture.value = f'<div class="bk-picture">{frame.svg}</div>'
            readout.value = (
                f'<p class="bk-readout" role="status" aria-live="polite">{escape(frame.readout)}</p>'
            )

        for control in controls.values():
            control.observe(redraw, "value")
        redraw()
        box = widgets.VBox(
            [widgets.HTML(f"<b>{escape(self.title)}</b>"), *controls.values(), picture, readout]
        )
        return box.add_class("bk-explorer")

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        bundle = {"text/plain": repr(self), "text/html": self._repr_html_()}
        if self.recompute is not None and hasattr(get_ipython(), "kernel"):
            view = self.live_view()._repr_mimebundle_()
            bundle |= {kind: data for kind, data in view.items() if "widget-view" in kind}
        return bundle


def navigation_frame(trajectories: Sequence, goals, returns, limit: float = 0.7) -> Frame:
    """Paths in the plane as a small inline SVG.

    trajectories: one (T, 2) array of positions per goal, T may differ. goals: (G, 2). returns: (G,). limit:
    half the side of the square that is drawn. Lengths are whole thousandths, and each point is stored as its
    step from the last.
    """
    goals, returns = np.asarray(goals, dtype=float), np.asarray(returns, dtype=float)
    if not len(trajectories) == len(goals) == len(returns):
        raise ValueError(
            f"{len(trajectories)} trajectories, {len(goals)} goals and {len(returns)} returns differ"
        )
    side = round(1000 * limit)
    parts = [
        f'<svg viewBox="{-side} {-side} {2 * side} {2 * side}" role="img"'
        f' aria-label="Trajectories to {len(goals)} goals" fill="none" stroke-width="9"'
        f' stroke-linecap="round" stroke-linejoin="round">'
        f'<path stroke="{GREY}" stroke-width="3" opacity=".5" d="M{-side} 0H{side}M0 {-side}V{side}"/>'
    ]
    for i, (path, (x, y)) in enumerate(zip(trajectories, _screen(goals), strict=True)):
        points = _screen(path)  # (T, 2)
        steps = np.diff(points, axis=0)
        line = f"M{points[0, 0]} {points[0, 1]}" + (
            "l" + " ".join(f"{dx} {dy}" for dx, dy in steps) if len(steps) else ""
        )
        parts.append(
            f'<g stroke="{COLORS[i % len(COLORS)]}"><path d="{line.replace(" -", "-")}"/>'
            f'<path stroke-width="22" d="M{points[-1, 0]} {points[-1, 1]}h0"/>'
            f'<path stroke-width="14" d="M{x - 26} {y - 26}l52 52m0-52l-52 52"/></g>'
        )
    parts.append(f'<circle r="16" fill="{GREY}"/></svg>')
    mean, *each = [f"{value.round(1) + 0.0:.1f}".replace("-", "−") for value in (returns.mean(), *returns)]
    return Frame("".join(parts), f"mean return {mean} (each goal: {', '.join(each)})")


def _screen(points) -> np.ndarray:
    """Positions as whole thousandths, y pointing down as on a screen."""
    points = np.asarray(points, dtype=float).reshape(-1, 2)
    return np.rint(points * [1000, -1000]).astype(int)
