"""The chapter about films works on machines that draw and on others."""

import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled
from PIL import Image

pytest.importorskip("mujoco")

from bookkit import film


@pytest.fixture
def blind(monkeypatch):
    """A machine without OpenGL."""

    def choose_driver():
        raise DependencyNotInstalled("a picture needs OpenGL")

    monkeypatch.setattr(film, "choose_driver", choose_driver)


@pytest.fixture
def seeing(monkeypatch):
    monkeypatch.setattr(film, "choose_driver", lambda: None)


def test_a_picture_shows_what_was_drawn(seeing, capsys):
    pixels = np.zeros((4, 6, 3), dtype=np.uint8)
    pixels[1, 2] = 200, 100, 0
    shown = film.picture(lambda: pixels)
    assert shown.size == (6, 4) and shown.mode == "P"  # one byte a pixel
    assert np.abs(np.asarray(shown.convert("RGB")).astype(int) - pixels).max() < 8
    assert capsys.readouterr().out == ""


def test_without_opengl_a_line_stands_in_for_a_picture(blind, capsys):
    assert film.picture(lambda: pytest.fail("nothing can be drawn")) is None
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_without_opengl_the_film_is_the_stored_one(blind, capsys):
    shown = film.film_or_stored(lambda: pytest.fail("nothing can be drawn"))
    assert len(capsys.readouterr().out.splitlines()) == 1
    with Image.open(film.FILM) as gif:
        durations = [gif.info["duration"]]
        assert len(shown.frames) == gif.n_frames
        np.testing.assert_array_equal(shown.frames[0], gif.convert("RGB"))
    assert durations == [1000 * shown.seconds]
    assert {frame.shape for frame in shown.frames} == {shown.frames[0].shape}


def test_with_opengl_the_film_is_made(seeing, capsys):
    assert film.film_or_stored(lambda: "a film") == "a film"
    assert capsys.readouterr().out == ""
