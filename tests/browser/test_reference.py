"""The reference as built: every public name of the package, on one page, once."""

import importlib
import inspect
import re
from collections import Counter
from pathlib import Path

import mamlrl_core

PACKAGE = Path(mamlrl_core.__file__).parent


def public_names():
    """Classes, functions, and what is defined in the classes, as Python itself sees them."""
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
        for name, thing in vars(module).items():
            ours = getattr(thing, "__module__", None) == module.__name__
            if name.startswith("_") or not ours or not (inspect.isclass(thing) or inspect.isfunction(thing)):
                continue
            yield f"{module.__name__}.{name}"
            if inspect.isclass(thing):
                made = {"count", "index"} if hasattr(thing, "_fields") else set()  # by NamedTuple
                for member in {**vars(thing), **getattr(thing, "__annotations__", {})}:
                    if not member.startswith("_") and member not in made:
                        yield f"{module.__name__}.{name}.{member}"


def test_every_public_name_has_one_place(book_site):
    places = Counter()
    for page in (book_site / "book" / "api").glob("*.html"):
        places.update(re.findall(r'<dt class="sig[^>]* id="(mamlrl_core[^"]+)"', page.read_text("utf-8")))
    assert [name for name in public_names() if name not in places] == []
    assert [name for name, times in places.items() if times > 1] == []


def test_the_constants_are_there_too(book_site):
    pages = "".join(page.read_text("utf-8") for page in (book_site / "book" / "api").glob("*.html"))
    for name in ("config.PRESETS", "policies.Params", "envs.FAMILIES", "envs.base.Task", "envs.locomotion.Y"):
        assert pages.count(f'id="mamlrl_core.{name}"') == 1, name


def test_every_name_says_where_it_is_read(book_site):
    page = (book_site / "book" / "api" / "meta_step.html").read_text("utf-8")
    assert re.search(r'Read line by line in <a [^>]*href="\.\./\d\d_outer_loop\.html"', page)
