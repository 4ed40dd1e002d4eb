"""Pictures for the chapter about films. Where nothing can draw, a line says so and the chapter goes on."""

from collections.abc import Callable

import numpy as np
from gymnasium.error import DependencyNotInstalled
from IPython.utils.capture import capture_output
from PIL import Image, ImageSequence

from mamlrl_core.camera import choose_driver
from mamlrl_core.rendering import Film

from .cheetah import DT, FILM

COLOURS = 32
STORED_EVERY = 2  # steps from one frame of the stored film to the next


def picture(draw: Callable[[], np.ndarray]) -> Image.Image | None:
    """What `draw` returns, (H, W, 3), as a small picture."""
    if not can_draw():
        print("No picture here: OpenGL is missing (see the text). The rest of the chapter works without.")
        return None
    return Image.fromarray(draw()).quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)


def film_or_stored(make: Callable[[], Film]) -> Film:
    """The film that `make` draws; where nothing can draw, the stored one of the chapter before this."""
    if can_draw():
        with capture_output(stdout=False, stderr=False):  # a page has no use for a progress bar
            return make()
    print("OpenGL is missing here: these are the frames of the stored film.")
    with Image.open(FILM) as gif:
        frames = [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(gif)]
    return Film(frames, STORED_EVERY * DT, [])


def can_draw() -> bool:
    try:
        choose_driver()
    except DependencyNotInstalled:
        return False
    return True
