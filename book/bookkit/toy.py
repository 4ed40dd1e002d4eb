"""The drawings of the opening chapter: bowls on a line, valleys in a plane, sines: small inline SVGs."""

from collections.abc import Sequence

import numpy as np

from .explorer import Frame
from .plots import BLUE, GREEN, GREY, PURPLE, VERMILION

ORDERS = ("second order", "first order")
# Where the pictures put θ, as fractions of their width and height: for the knobs that a pointer drags.
LINE_DRAG = ("x", 0.5 - 1.6 / 4.8, 0.5 + 1.6 / 4.8)
PLANE_DRAG = {"x": ("x", 0.5 - 1.6 / 4, 0.5 + 1.6 / 4), "y": ("y", 0.5 + 1.6 / 4, 0.5 - 1.6 / 4)}


def meta_gradients(hessians, centers, theta, alpha: float) -> dict[str, np.ndarray]:
    """The gradient by θ of the mean loss after one step, exact and with the inner gradient held constant.

    hessians: (N, D, D) and centers: (N, D) of the losses ½ (θ − cᵢ)ᵀ Hᵢ (θ − cᵢ). theta: (D,).
    """
    hessians, centers = np.asarray(hessians, dtype=float), np.asarray(centers, dtype=float)
    factors = np.eye(len(theta)) - alpha * hessians  # (N, D, D)
    slopes = np.einsum("nij,njk,nk->ni", hessians, factors, theta - centers)  # ∇Lᵢ at θ'ᵢ, (N, D)
    exact = np.einsum("nij,nj->ni", factors, slopes)
    return {"second order": exact.mean(0), "first order": slopes.mean(0)}


def bowls_frame(
    curvatures: Sequence[float], centers: Sequence[float], theta: float, alpha: float, order: str
) -> Frame:
    """Two bowls over a line, one step in each; below them the mean loss before and after that step.

    curvatures and centers: (2,), the steep bowl first. order: one of `ORDERS`, whose direction is drawn.
    """
    a, c = np.asarray(curvatures, dtype=float), np.asarray(centers, dtype=float)
    factors = 1 - alpha * a
    adapted = c + factors * (theta - c)  # (2,)
    before, after = 0.5 * a * (theta - c) ** 2, 0.5 * a * (adapted - c) ** 2  # (2,)
    gradient = float(meta_gradients(a[:, None, None], c[:, None], np.array([theta]), alpha)[order][0])

    def x(value: float) -> int:
        return round(300 + 125 * float(np.clip(value, -9, 9)))

    def top(loss: float) -> int:
        return round(250 - 56 * loss)

    def low(loss: float) -> int:
        return round(450 - 130 * loss)

    parts = [
        _svg(600, 490, "Two bowls, one gradient step in each, and the mean loss before and after it"),
        f'<path stroke="{GREY}" opacity=".5" d="M0 250H600M0 450H600M{x(theta)} 0V450"/>',
    ]
    for i, color in enumerate((BLUE, VERMILION)):
        bowl = _parabola(x, top, a[i], c[i], 0.0, highest=4.4)
        parts.append(
            f'<g stroke="{color}"><path stroke-width="3" opacity=".6" d="{bowl}"/>'
            + _arrow(x(theta), top(before[i]), x(adapted[i]), top(after[i]))
            + f'<circle cx="{x(theta)}" cy="{top(before[i])}" r="7" fill="{color}"/></g>'
        )
    for weights, color, dash in ((a, GREY, ' stroke-dasharray="7 6"'), (a * factors**2, GREEN, "")):
        center = weights @ c / weights.sum()
        lowest = (weights @ (center - c) ** 2) / 4  # the mean over two tasks of ½ w (center − c)²
        if lowest > 1.1:
            continue
        curve = _parabola(x, low, weights.sum() / 2, center, lowest, highest=1.1)
        parts.append(
            f'<g stroke="{color}" stroke-width="3"><path{dash} d="{curve}"/>'
            f'<path stroke-width="5" d="M{x(center)} {low(lowest) - 9}v18"/></g>'
        )
    here = max(low(after.mean()), 310)  # at the upper edge if it lies beyond
    move = float(np.clip(-gradient, -1, 1))
    if abs(move) > 0.005:
        color = GREEN if order == "second order" else PURPLE
        parts.append(f'<g stroke="{color}">{_arrow(x(theta), here, x(theta + move), here)}</g>')
    parts.append(
        f'<g fill="{GREY}" stroke="none" font-size="20"><g text-anchor="middle">'
        f'<text x="{x(c[0])}" y="274">steep</text><text x="{x(c[1])}" y="274">shallow</text></g>'
        f'<text x="6" y="22">loss</text><text x="6" y="296">mean loss</text></g>'
        f"{_handle(x(theta), 450)}</svg>"
    )
    way = "stays" if abs(gradient) < 0.005 else f"pulls θ to the {'left' if gradient > 0 else 'right'}"
    return Frame(
        _join(parts),
        f"θ = {_n(theta)}, α = {_n(alpha)}: the loss goes from {before[0]:.2f} to {after[0]:.2f} (steep), "
        f"from {before[1]:.2f} to {after[1]:.2f} (shallow), on average from {before.mean():.2f} to "
        f"{after.mean():.2f}. The {order} meta-gradient is {_n(gradient)}: it {way}.",
    )


def plane_frame(hessians, centers, theta, alpha: float) -> Frame:
    """Two valleys from above, one step in each, and the directions of both meta-gradients at θ.

    hessians: (2, 2, 2). centers: (2, 2). theta: (2,).
    """
    H, c, theta = (np.asarray(value, dtype=float) for value in (hessians, centers, theta))
    adapted = theta - alpha * np.einsum("nij,nj->ni", H, theta - c)  # (2, 2)

    def at(point) -> np.ndarray:
        return np.rint(300 + 150 * np.array([1, -1]) * np.clip(point, -9, 9)).astype(int)

    parts = [_svg(600, 600, "Two valleys seen from above, with one gradient step in each")]
    for i, color in enumerate((BLUE, VERMILION)):
        values, axes = np.linalg.eigh(H[i])  # ascending: the floor's direction first
        angle = round(np.degrees(np.arctan2(-axes[1, 0], axes[0, 0])))
        rx, ry = np.rint(150 * np.sqrt(0.1 / values)).astype(int)  # where the loss is 0.05
        rings = "".join(f'<ellipse rx="{n * rx}" ry="{n * ry}"/>' for n in (1, 2, 3))
        px, py = at(c[i])
        parts.append(
            f'<g stroke="{color}"><g opacity=".6" stroke-width="2" transform="translate({px} {py})'
            f' rotate({angle})">'
            f'{rings}<path d="M-400 0H400" stroke-dasharray="3 7"/></g>{_arrow(*at(theta), *at(adapted[i]))}'
            f'<path stroke-width="4" d="M{px - 9} {py - 9}l18 18m0-18l-18 18"/></g>'
        )
    factors = np.eye(2) - alpha * H
    for power, color, mark in (
        (0, GREY, "M-9-9h18v18h-18z"),
        (1, PURPLE, "M0-12l11 20h-22z"),
        (2, GREEN, "M0-13l12 13l-12 13l-12-13z"),
    ):
        weights = [h @ np.linalg.matrix_power(f, power) for h, f in zip(H, factors, strict=True)]
        px, py = at(
            np.linalg.solve(sum(weights), sum(w @ center for w, center in zip(weights, c, strict=True)))
        )
        parts.append(f'<path fill="{color}" d="{mark}" transform="translate({px} {py})"/>')
    both = meta_gradients(H, c, theta, alpha)
    for order, color in zip(ORDERS, (GREEN, PURPLE), strict=True):
        length = np.linalg.norm(both[order])
        if length > 1e-3:
            end = at(theta - 0.5 * both[order] / length)
            parts.append(f'<g stroke="{color}">{_arrow(*at(theta), *end)}</g>')
    parts.append(_handle(*at(theta)) + "</svg>")
    before, after = (0.5 * np.einsum("ni,nij,nj->n", d, H, d) for d in (theta - c, adapted - c))  # (2,)
    return Frame(
        _join(parts),
        f"θ = ({_n(theta[0])}, {_n(theta[1])}), α = {_n(alpha)}: mean loss {before.mean():.3f} before "
        f"the step, {after.mean():.3f} after it. {_between(both)}",
    )


def _between(both: dict[str, np.ndarray]) -> str:
    exact, short = (both[order] for order in ORDERS)
    lengths = np.linalg.norm(exact) * np.linalg.norm(short)
    if lengths < 1e-4:
        return "One of the two meta-gradients vanishes here."
    angle = np.degrees(np.arccos(np.clip(exact @ short / lengths, -1, 1)))
    return f"First and second order point {angle:.0f}° apart."


def sine_frame(x, target, starts: dict, points, errors: dict) -> Frame:
    """One sine, the points shown of it, and what two starting points make of them.

    x, target: (G,), x rising from -5 to 5. starts: name -> curve (G,), two of them. points: (n, 2).
    errors: name -> number.
    """

    def place(xs, ys) -> np.ndarray:
        xs, ys = np.asarray(xs, dtype=float), np.clip(np.asarray(ys, dtype=float), -9, 9)
        return np.rint(np.stack([300 + 58 * xs, 180 - 31 * ys], -1)).astype(int)

    parts = [
        _svg(600, 360, "A sine, some points of it, and two fitted curves"),
        f'<path stroke="{GREY}" stroke-width="2" opacity=".5" d="M0 180H600M300 0V360"/>'
        f'<path stroke="{GREY}" stroke-width="5" stroke-dasharray="2 10" d="{_line(place(x, target))}"/>',
    ]
    for (_, curve), color in zip(starts.items(), (BLUE, VERMILION), strict=True):
        parts.append(f'<path stroke="{color}" stroke-width="4" d="{_line(place(x, curve))}"/>')
    for px, py in place(*np.asarray(points, dtype=float).T):
        parts.append(f'<circle cx="{px}" cy="{py}" r="7" fill="{GREY}"/>')
    words = ", ".join(f"{name} {error:.2f}" for name, error in errors.items())
    return Frame(_join([*parts, "</svg>"]), f"Mean squared error over the whole curve: {words}.")


def _join(parts: Sequence[str]) -> str:
    """One drawing. In JSON, as which frames are stored, a single quote costs less than a double one."""
    return "".join(parts).replace('"', "'")


def _svg(width: int, height: int, label: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}" fill="none" stroke-width="4"'
        f' stroke-linecap="round" stroke-linejoin="round">'
    )


def _parabola(x, y, curvature: float, center: float, lowest: float, highest: float, edge: float = 2.4) -> str:
    """½ · curvature · (x − center)² + lowest, up to `highest`: a quadratic Bézier curve is exactly that."""
    reach = np.sqrt(2 * (highest - lowest) / curvature)
    left, right = max(-edge, center - reach), min(edge, center + reach)

    def value(at: float) -> float:
        return 0.5 * curvature * (at - center) ** 2 + lowest

    control = value(left) + curvature * (left - center) * (right - left) / 2  # where the ends' tangents meet
    return f"M{x(left)} {y(value(left))}Q{x((left + right) / 2)} {y(control)} {x(right)} {y(value(right))}"


def _arrow(x0: int, y0: int, x1: int, y1: int) -> str:
    shaft = np.array([x1 - x0, y1 - y0], dtype=float)
    length = np.linalg.norm(shaft)
    if length < 3:
        return ""
    along = shaft / length * min(12, 0.6 * length)
    across = np.array([-along[1], along[0]]) * 0.6
    (ax, ay), (bx, by) = (np.rint(-along + side * across).astype(int) for side in (1, -1))
    return f'<path d="M{x0} {y0}L{x1} {y1}m{ax} {ay}l{-ax} {-ay}l{bx} {by}"/>'


def _handle(x: int, y: int) -> str:
    """θ, with room for a finger around it."""
    return (
        f'<g data-handle="" fill="{GREY}"><circle cx="{x}" cy="{y}" r="12"/>'
        f'<circle cx="{x}" cy="{y}" r="42" opacity="0"/></g>'
    )


def _line(points: np.ndarray) -> str:
    """A path through whole-numbered points (n, 2), each stored as its step from the last."""
    steps = " ".join(f"{dx} {dy}" for dx, dy in np.diff(points, axis=0))
    return f"M{points[0, 0]} {points[0, 1]}l{steps}".replace(" -", "-")


def _n(value: float) -> str:
    """A number to hundredths, with a proper minus sign and no minus zero."""
    return f"{round(float(value), 2) + 0.0:g}".replace("-", "−")
