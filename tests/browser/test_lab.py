"""The live path: JupyterLab runs the sample chapter, and its explorer recomputes with the kernel."""

import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from playwright.sync_api import expect

from .conftest import environment


@pytest.fixture
def lab(sample_source, tmp_path):
    """JupyterLab over the sample chapter, with settings of its own; yields (address, token)."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(16)
    folders = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    folders += ("JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR")
    options = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "ServerApp.root_dir": sample_source / "book",
        "ServerApp.open_browser": False,
        "ServerApp.allow_root": True,
        "IdentityProvider.token": token,
        "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        "LabApp.news_url": None,
    }
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *(f"--{name}={value}" for name, value in options.items())],
            env=environment() | {name: str(tmp_path / name) for name in folders},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    address = f"http://127.0.0.1:{port}/"
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{address}api/status?token={token}").close()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_text()
                time.sleep(0.2)
        yield address, token
    finally:
        server.terminate()  # it shuts its kernels down
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def test_an_explorer_recomputes_with_a_kernel(lab, visit):
    address, token = lab
    seen = visit(address, "ws:", viewport={"width": 1400, "height": 1000})
    page = seen.page
    page.goto(f"{address}lab/tree/01_sample.ipynb?token={token}")
    # Before the kernel stands, "Run" would ask which one to take.
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=60_000)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    view = page.locator(".jp-OutputArea .widget-box.bk-explorer")
    view.wait_for(timeout=60_000)
    view.scroll_into_view_if_needed()
    picture, readout = view.locator(".bk-picture"), view.locator(".bk-readout")

    # The setup cell has styled the page, and no widget of it is in the way.
    assert page.locator(".bk-no").first.evaluate("n => getComputedStyle(n).userSelect") == "none"

    def turn(action) -> None:
        """Do something to a knob, and see picture and words change."""
        drawn, words = picture.inner_html(), readout.inner_text()
        action()
        expect(readout).not_to_have_text(words, timeout=20_000)
        assert picture.inner_html() != drawn

    step_size, steps = view.locator(".noUi-handle").all()
    turn(lambda: step_size.press("ArrowRight"))
    # One hundredth of the range further than 0.1: a value that the stored sweep does not have.
    assert re.fullmatch(r"0\.10[12]\d*", view.locator(".widget-readout").first.inner_text())
    turn(lambda: view.locator("select").select_option("sides"))
    turn(lambda: steps.press("ArrowRight"))
    assert seen.problems == []
