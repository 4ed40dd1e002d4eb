"""A browser, and two sites to open in it: the book as built, and a sample chapter with every device."""

import contextlib
import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import nbformat
import pytest

from .sample import sample_chapter

ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def browser():
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        message = "no Chromium found: put chromium on the path, or name it in the variable CHROMIUM"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # A container's root may not use Chromium's sandbox; the only pages opened are our own.
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """A page that notes what must not happen: errors, failed loads, and requests to any other host."""

    def __init__(self, page, own: tuple[str, ...]):
        self.page, self.own, self.problems = page, own, []
        page.route("**/*", self._route)
        page.on("pageerror", lambda error: self.problems.append(f"{page.url}: {error}"))
        page.on("requestfailed", lambda request: self.problems.append(f"{page.url}: {request.url} failed"))
        page.on("response", lambda response: response.status >= 400 and self._note(response.url))
        page.on("console", lambda message: message.type == "error" and self._note(message.text))

    def _note(self, text: str) -> None:
        self.problems.append(f"{self.page.url}: {text}")

    def _route(self, route) -> None:
        if route.request.url.startswith((*self.own, "data:", "blob:", "about:")):
            route.continue_()
        else:
            self._note(f"a request to {route.request.url}")
            route.abort()


@pytest.fixture
def visit(browser):
    """visit(own="http://…", **context options) -> Visit"""
    with contextlib.ExitStack() as stack:

        def open_page(*own: str, **options) -> Visit:
            context = browser.new_context(**options)
            context.set_default_timeout(60_000)  # a busy machine is no failure
            stack.callback(context.close)
            return Visit(context.new_page(), own)

        yield open_page


def build(source: Path, target: Path) -> Path:
    command = [Path(sys.executable).with_name("jupyter-book"), "build", source, "--path-output", target]
    done = subprocess.run(
        [*command, "-W", "-n", "--keep-going", "-q"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return target / "_build" / "html"


@pytest.fixture(scope="session")
def book_site(tmp_path_factory) -> Path:
    """The book: as `make book` left it, or built here."""
    if (ROOT / "_build" / "html" / ".stamp").exists():
        return ROOT / "_build" / "html"
    return build(ROOT, tmp_path_factory.mktemp("book"))


@pytest.fixture(scope="session")
def sample_source(tmp_path_factory) -> Path:
    """The book's sources with one chapter, executed: the sample."""
    source = tmp_path_factory.mktemp("sample")
    shutil.copy(ROOT / "_config.yml", source)
    shutil.copytree(ROOT / "book", source / "book", ignore=shutil.ignore_patterns("*.ipynb", "data", ".*"))
    (source / "_toc.yml").write_text(
        "format: jb-book\nroot: book/index\nchapters:\n  - file: book/01_sample\n  - file: book/references\n"
    )
    (source / "book" / "index.md").write_text("# A sample\n\n```{tableofcontents}\n```\n")
    nbformat.write(sample_chapter(), source / "book" / "01_sample.ipynb")
    subprocess.run(
        [sys.executable, "-m", "bookkit.run"], cwd=source / "book", env=environment(), check=True, timeout=120
    )
    return source


@pytest.fixture(scope="session")
def sample_site(sample_source, tmp_path_factory) -> Path:
    return build(sample_source, tmp_path_factory.mktemp("sample_site"))


def environment() -> dict[str, str]:
    """For kernels that run a copy of the book: the package is here."""
    return os.environ | {"PYTHONPATH": str(ROOT)}


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture
def serve():
    """serve(folder) -> the address of a server on this machine that ends with the test."""
    with contextlib.ExitStack() as stack:

        def start(folder: Path) -> str:
            handler = functools.partial(QuietHandler, directory=str(folder))
            server = stack.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}/"

        yield start
