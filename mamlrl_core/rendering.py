"""Look at it: a film of a body before and after it has adapted.

Nothing is played for the camera. A seed and a list of actions determine an episode, so the very episodes that
an evaluation measures are simulated once more, and this time somebody watches.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium
import matplotlib
import numpy as np
from gymnasium.error import DependencyNotInstalled
from gymnasium.utils.seeding import np_random
from PIL import Image, ImageDraw, ImageFont
from tqdm.auto import tqdm

from .camera import PAPER, Camera
from .checkpoint import write_atomically
from .config import Config
from .envs import DynamicsEnv, Task
from .evaluation import adapt_and_play
from .policies import MLPPolicy
from .seeding import Purpose, derive_seed
from .training import make_sampler

FONT = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
NARROWEST, WIDEST = 100, 4096  # pixels: of a column, to be readable; of a film, for memory to hold it
INK, GREY, BLUE = (34, 34, 34), (0.42, 0.42, 0.42), (0.0, 0.45, 0.70)
BOTH_WAYS: list[Task] = [{"direction": np.float64(way)} for way in (-1.0, 1.0)]


@dataclass(frozen=True)
class Shot:
    """One episode to be shown: of ``task``, after ``k`` gradient steps."""

    task: Task
    k: int
    states: np.ndarray  # (L + 1, ·), from the start to the end of the episode
    rewards: np.ndarray  # (L,)
    ended: bool  # before the horizon


def perform(
    config: Config,
    policy: MLPPolicy,
    *,
    steps: int = 1,
    num_tasks: int | None = None,
    episodes_per_task: int = 20,
    seed: int = 0,
) -> list[list[Shot]]:
    """The first episode of every task, before adaptation and after: shots at k = 0, then at k = ``steps``.

    Args:
        num_tasks: held-out tasks, those of ``evaluate``. If None, two; of a family of directions, both.
        config, policy, steps, episodes_per_task, seed: as in ``evaluate``.

    Raises:
        ValueError: if the family has no body, or for arguments that make no sense.
    """
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    count, family = columns(num_tasks), body_of(config)
    root = derive_seed(seed, Purpose.EVALUATION)
    step_sizes = [config.step_size(k) for k in range(steps)]
    rows = []
    with make_sampler(config, num_tasks=count, episodes_per_task=episodes_per_task, seed=root) as sampler:
        both_ways = num_tasks is None and "direction" in family.task
        tasks = BOTH_WAYS if both_ways else sampler.sample_tasks(0)
        sampler.reset_task(tasks)
        for k, episodes in enumerate(adapt_and_play(config, policy, sampler, step_sizes)):
            if 0 < k < steps:
                continue
            row = []
            for i, task in enumerate(tasks):
                length = int(episodes.lengths[i, 0])
                actions = episodes.actions[i, :length, 0].double().numpy()  # (L, A)
                start = derive_seed(root, Purpose.ENVIRONMENT, 0, k, i, 0)  # that of the sampler
                row.append(Shot(task, k, *replay(family, task, start, actions), length < family.horizon))
            rows.append(row)
    return rows


def columns(num_tasks: int | None) -> int:
    """The number of tasks that are shown beside each other."""
    if num_tasks is not None and num_tasks < 1:
        raise ValueError(f"num_tasks must be at least 1, got {num_tasks}")
    return num_tasks or 2


def body_of(config: Config) -> DynamicsEnv:
    """An environment of the family, which must have a body."""
    family = gymnasium.make(config.env).unwrapped
    if not hasattr(family, "model"):
        raise ValueError(f"render needs a body, as the locomotion families have; {config.env} has none")
    return family


def replay(family: DynamicsEnv, task: Task, seed: int, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """States (L + 1, ·) and rewards (L,) of the episode that ``seed`` starts and ``actions`` lead on."""
    rng, _ = np_random(seed)
    states, rewards = [family.initial_state(task, family.draw_start(rng))], []
    noise = family.draw_noise(rng)
    for t, action in enumerate(actions):
        state, reward, _ = family.transition(states[-1], action, noise[t], task)
        states.append(state)
        rewards.append(reward)
    return np.stack(states), np.array(rewards)


def render(config: Config, policy: MLPPolicy, *, width: int = 640, every: int = 2, **protocol: Any) -> Film:
    """Film what ``perform`` shows: a column for each task, before adaptation above and after it below.

    Args:
        width: of the film, in pixels.
        every: draw every second, third, ... step. The film takes as long as the episodes do.
        config, policy, protocol: the arguments of ``perform``.

    Raises:
        ValueError: for what ``perform`` refuses, or for a film that cannot be.
        DependencyNotInstalled: if nothing here can draw.
    """
    if every < 1:
        raise ValueError(f"every must be at least 1, got {every}")
    count, family = columns(protocol.get("num_tasks")), body_of(config)
    if not NARROWEST * count <= width <= WIDEST:
        least = f"{NARROWEST} for each of the {count} tasks"
        raise ValueError(f"width must be at least {least}, and at most {WIDEST} in all, got {width}")
    camera = Camera(family, width // count)  # or say that it cannot draw here, before anything is played
    rows = perform(config, policy, **protocol)
    titles = np.hstack([title(camera, shot.task) for shot in rows[0]])
    last = max(len(shot.rewards) for row in rows for shot in row)
    frames = []
    for moment in tqdm([*range(0, last, every), last], desc="drawing", unit="frame", disable=None):
        pictures = [np.hstack([panel(camera, shot, moment) for shot in row]) for row in rows]
        frames.append(np.vstack([titles, *pictures]))
    camera.close()
    return Film(frames, family.dt * every, rows)


def title(camera: Camera, task: Task) -> np.ndarray:
    """The task in words, as wide as a picture: (·, W, 3)."""
    em = camera.width / 16
    image = Image.new("RGB", (camera.width, round(1.6 * em)), PAPER)
    font = ImageFont.truetype(FONT, em)
    ImageDraw.Draw(image).text((camera.width / 2, 0.8 * em), in_words(task), INK, font, anchor="mm")
    return np.asarray(image)


def panel(camera: Camera, shot: Shot, moment: int) -> np.ndarray:
    """The body at a moment of an episode or at its end, k and the return so far, and a ruler: (·, W, 3)."""
    now = min(moment, len(shot.rewards))
    picture = camera.shoot(shot.states[now], shot.task, BLUE if shot.k else GREY)
    em = camera.width / 16
    above = round(1.4 * em)
    below = above + camera.height
    image = Image.new("RGB", (camera.width, below + round(1.2 * em)), PAPER)
    image.paste(Image.fromarray(picture), (0, above))
    draw = ImageDraw.Draw(image)

    font, small = ImageFont.truetype(FONT, em), ImageFont.truetype(FONT, 0.75 * em)
    when = f"after, k = {shot.k}" if shot.k else "before, k = 0"
    so_far = with_minus(f"return {shot.rewards[:now].sum():.1f}")
    draw.text((em / 3, above / 2), when, INK, font, anchor="lm")
    draw.text((camera.width - em / 3, above / 2), so_far, INK, font, anchor="rm")
    if shot.ended and now == len(shot.rewards):
        draw.text((camera.width - em / 3, above), f"ended after {now} steps", INK, small, anchor="ra")

    apart = 1 if camera.pixels_per_metre > 3 * em else 2
    margin = em / camera.pixels_per_metre  # so that no number is cut off
    first, end = math.ceil((camera.leftmost + margin) / apart) * apart, math.ceil(camera.rightmost - margin)
    for x in range(first, end, apart):
        across = (x - camera.leftmost) * camera.pixels_per_metre
        draw.line([(across, below), (across, below + em / 4)], INK)
        draw.text((across, below + em / 3), with_minus(f"{x} m"), INK, small, anchor="mt")
    draw.rectangle([0, 0, camera.width - 1, image.height - 1], outline=PAPER, width=2)
    return np.asarray(image)


def in_words(task: Task) -> str:
    """
    >>> in_words({"direction": np.float64(-1)}), in_words({"goal": np.array([0.5, -2.0])})
    ('direction −1 ←', 'goal (0.5, −2)')
    """
    words = []
    for name, value in task.items():
        numbers = ", ".join(f"{number:.3g}" for number in np.ravel(value))
        words.append(f"{name} ({numbers})" if np.ndim(value) else f"{name} {numbers}")
    arrow = {-1.0: " ←", 1.0: " →"}[float(task["direction"])] if "direction" in task else ""
    return with_minus(", ".join(words) + arrow)


def with_minus(text: str) -> str:
    return text.replace("-", "−")


@dataclass(frozen=True)
class Film:
    """Frames of one size, (H, W, 3), uint8, shown ``seconds`` each."""

    frames: list[np.ndarray]
    seconds: float
    rows: list[list[Shot]]  # what it shows

    def save(self, path: Path) -> Path:
        """Write a GIF or an MP4, as ``path`` ends, and beside it the last frame, whose path is returned.

        The folder is made if it is missing.
        """
        still = path.with_suffix(".png")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, self.as_gif() if path.suffix.lower() == ".gif" else self.as_mp4())
        write_atomically(still, encoded([Image.fromarray(self.frames[-1])], "PNG", optimize=True))
        return still

    def as_gif(self) -> bytes:
        """32 colours that all frames share, and no dithering: that keeps it small."""
        sample = np.concatenate(self.frames[:: max(1, len(self.frames) // 8)])
        palette = Image.fromarray(sample).quantize(32, Image.Quantize.FASTOCTREE)
        frames = [Image.fromarray(f).quantize(palette=palette, dither=Image.Dither.NONE) for f in self.frames]
        durations = [round(1000 * self.seconds)] * (len(frames) - 1) + [2000]  # time to read the result
        return encoded(frames, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0)

    def as_mp4(self) -> bytes:
        from imageio.v3 import imwrite

        height, width, _ = self.frames[0].shape
        frames = np.stack(self.frames)[:, : height // 2 * 2, : width // 2 * 2]  # the codec wants even sides
        codec = {"plugin": "FFMPEG", "extension": ".mp4", "fps": 1 / self.seconds, "macro_block_size": 2}
        return imwrite("<bytes>", frames, **codec)


def require_format(path: Path) -> None:
    """Say what would stop ``Film.save``, before a film is made for it.

    Raises:
        ValueError: for an unknown ending.
        DependencyNotInstalled: if the encoder of MP4 is missing.
    """
    if path.suffix.lower() not in (".gif", ".mp4"):
        raise ValueError(f"a film ends in .gif or .mp4, got {path}")
    if path.suffix.lower() == ".mp4" and not all(map(find_spec, ("imageio", "imageio_ffmpeg"))):
        raise DependencyNotInstalled("an MP4 needs an encoder: pip install 'imageio[ffmpeg]', or choose .gif")


def encoded(frames: list[Image.Image], kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    frames[0].save(file, kind, **options)
    return file.getvalue()
