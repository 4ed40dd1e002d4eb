"""The appendices: what they say about the package and the chapters is so, and complete."""

import importlib
import inspect
import re
from collections import Counter
from dataclasses import fields
from pathlib import Path

import nbformat
import pytest
import yaml

import mamlrl_core
from mamlrl_core.config import Config

ROOT = Path(__file__).parents[1]
BOOK = ROOT / "book"
CONTENTS = (ROOT / "_toc.yml").read_text(encoding="utf-8")
SUBSTITUTIONS = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["parse"][
    "myst_substitutions"
]
NOTATION = (BOOK / "notation.md").read_text(encoding="utf-8")
OLD_CODE = (BOOK / "old_code.md").read_text(encoding="utf-8")
GLOSSARY = (BOOK / "glossary.md").read_text(encoding="utf-8")

GREEK = "alpha beta gamma delta epsilon theta kappa lambda mu xi pi rho sigma phi"


def text_cells(path: Path) -> str:
    return "\n".join(cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "markdown")


CHAPTERS = {path.stem: text_cells(path) for path in sorted(BOOK.glob("*.ipynb"))}
IN_CONTENTS = [stem for stem in CHAPTERS if f"book/{stem}" in CONTENTS]


# -------------------------------------------------------------------------------------------- reference


def test_every_module_has_one_place_in_the_reference():
    pages = "\n".join(path.read_text(encoding="utf-8") for path in (BOOK / "api").glob("*.md"))
    listed = re.findall(r"module-reference:: (\S+)", pages)
    package = Path(mamlrl_core.__file__).parent
    present = [".".join(p.relative_to(package).with_suffix("").parts) for p in package.rglob("*.py")]
    assert sorted(listed) == sorted(present)


def test_every_page_of_the_reference_is_in_the_table_of_contents():
    for path in (BOOK / "api").glob("*.md"):
        assert f"book/api/{path.stem}\n" in CONTENTS


def test_a_heading_of_the_reference_names_the_file_below_it():
    for path in (BOOK / "api").glob("*.md"):
        pairs = re.findall(r"## `(.+)`\n+```\{eval-rst\}\n.. module-reference:: (\S+)", path.read_text())
        assert all(file == module.replace(".", "/") + ".py" for file, module in pairs)


# --------------------------------------------------------------------------------------------- notation


def rows_of_notation(section: str) -> list[list[str]]:
    text = NOTATION.partition(f"## {section}")[2].partition("\n## ")[0]
    rows = [re.split(r"\s*\|\s*", line.strip(" |")) for line in text.splitlines() if line.startswith("| ")]
    return rows[1:]


NOTATION_ROWS = [*rows_of_notation("Latin letters"), *rows_of_notation("Greek letters")]


def symbols(cell: str) -> set[str]:
    """The symbols in a cell of a table: "$S = N \\cdot B$, K" -> {"S", "K"}, without spaces."""
    found = re.findall(r"\$(.+?)\$", cell)
    plain = re.sub(r"\$.+?\$|`.+?`", "", cell)
    found += [one.strip() for one in plain.split(",") if re.fullmatch(r"\s*[A-Za-z]\s*", one)]
    parts = [part for one in found for part in re.split(r"=|\\sim|,(?![^(]*\))", one.split("=")[0])]
    return {re.sub(r"\\[,;]|\s", "", part) for part in parts if part.strip()}


def defined_by(chapter: str) -> set[str]:
    """What the table of symbols of a chapter defines."""
    section = re.search(r"^## Symbols.*?(?=^## |\Z)", CHAPTERS[chapter], re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\|([^|]*)\|", section[0], re.MULTILINE) if section else []
    return {symbol for cell in rows[2:] for symbol in symbols(cell)}


KNOWN = {symbol for row in NOTATION_ROWS for symbol in symbols(row[0])}


@pytest.mark.parametrize("chapter", IN_CONTENTS)
def test_every_symbol_of_a_chapter_is_in_the_notation(chapter):
    assert sorted(defined_by(chapter) - KNOWN) == []


def test_the_reader_of_tables_reads_them():
    assert symbols(r"$S = N \cdot B$, K") == {"S", "K"}
    assert symbols(r"$\mathcal T_i \sim p(\mathcal T)$") == {r"\mathcalT_i", r"p(\mathcalT)"}
    assert symbols(r"$\pi(a \mid s; \theta)$, `S`") == {r"\pi(a\mids;\theta)"}
    assert {"N", r"\theta'_i", "J^\\top"} <= defined_by("07_outer_loop")


def test_notation_is_in_alphabetical_order():
    def letter(row, order):
        marks = r"mathcal|mathrm|hat|bar|dot|log|Delta"
        word = re.sub(rf"\\(?:{marks})\b", lambda m: "delta " if "Delta" in m[0] else "", row[0])
        return order(re.search(r"[A-Za-z]+", word.replace("ell", "l"))[0])

    latin = [letter(row, lambda word: word[0].casefold()) for row in rows_of_notation("Latin letters")]
    assert latin == sorted(latin)
    same = {"varepsilon": "epsilon", "varphi": "phi"}
    greek = [
        letter(row, lambda word: GREEK.split().index(same.get(word, word)))
        for row in rows_of_notation("Greek letters")
    ]
    assert greek == sorted(greek)


def test_a_meaning_is_listed_once():
    twice = Counter((row[0], row[4]) for row in NOTATION_ROWS)
    assert max(twice.values()) == 1


# --------------------------------------------------------------------------------------------- glossary


def test_the_glossary_is_in_alphabetical_order_and_short():
    body = GLOSSARY.partition("```{glossary}\n")[2].partition("```")[0]
    entries = [entry.split("\n", 1) for entry in body.strip().split("\n\n")]
    terms = [term for term, _ in entries]
    assert terms == sorted(terms, key=str.casefold)
    for term, meaning in entries:
        sentences = re.findall(r"[.!?](?=\s|$)", re.sub(r"`.*?`", "", meaning, flags=re.DOTALL))
        assert len(sentences) <= 2, f"{term} takes {len(sentences)} sentences"


# --------------------------------------------------------------------------------- from the old code


def chapter_of(name: str) -> str:
    """The chapter that a short name of _config.yml stands for: a link to it, or the start of its title."""
    told = SUBSTITUTIONS[name]
    if link := re.search(r"</book/(\w+)>", told):
        return link[1]
    return next((stem for stem, text in CHAPTERS.items() if text.startswith(f"# {told.strip('*')}")), "")


@pytest.mark.parametrize("name", SUBSTITUTIONS)
def test_short_names_of_chapters_lead_somewhere(name):
    chapter = chapter_of(name)
    assert not chapter or chapter in CHAPTERS
    if "{doc}" not in SUBSTITUTIONS[name]:
        assert chapter not in IN_CONTENTS, "this chapter has joined: make the name a link, in _config.yml"


def test_pitfalls_that_are_referred_to_exist():
    references = re.findall(r"\{\{ (\w+) \}\},\s+(?:job \d,\s+)?pitfalls? ([\d, and]+)", OLD_CODE)
    assert len(references) > 15
    for name, numbers in references:
        text = CHAPTERS.get(chapter_of(name))
        if text is None:
            continue  # a chapter that is not written yet
        pitfalls = text.partition("## Pitfalls")[2].partition("\n## ")[0]
        for number in re.findall(r"\d+", numbers):
            assert re.search(rf"^### {number}\b", pitfalls, re.MULTILINE), f"{name} has no pitfall {number}"


CODE = re.compile(r"`([A-Za-z_.]+)(?:\(.*?\))?`")


def names_of_the_package() -> set[str]:
    names = {field.name for field in fields(Config)}
    for path in Path(mamlrl_core.__file__).parent.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
        for name, thing in vars(module).items():
            names.add(name)
            if inspect.isclass(thing) and thing.__module__.startswith("mamlrl_core"):
                names |= set(vars(thing)) | {f"{name}.{member}" for member in vars(thing)}
                names |= {f"{name}.{member}" for member in getattr(thing, "_fields", ())}
    return names


def test_what_stands_there_now_exists():
    pytest.importorskip("mujoco")
    elsewhere = {"mamlrl_core", "terminated", "truncated", "done", "forkserver", "with", "ValueError", "same"}
    elsewhere |= {"torch.func.functional_call", "torch.func"}
    now = re.findall(r"\*\*(?:Now|now)\*\*(.*?)(?=\n: |\n\n)", OLD_CODE.partition("## Porting")[0], re.S)
    used = {name for text in now for name in CODE.findall(text)}
    assert len(used) > 25
    assert sorted(used - names_of_the_package() - elsewhere) == []


def test_the_defaults_in_the_table_of_settings():
    for old, new, default in re.findall(r"^\| `(\w+)` \| (\S+) \| .*→ (.+?) \|$", OLD_CODE, re.MULTILINE):
        value = getattr(Config(), old if new == "same" else new.strip("`"))
        value = value[0] if isinstance(value, tuple) else value
        assert value == (False if default == "no" else float(default)), old


def test_the_ported_script_runs():
    script = re.search(r"```python\n(.*?)```", OLD_CODE, re.DOTALL)[1]
    smaller = {"range(100)": "range(2)", "num_tasks=20": "num_tasks=2", "per_task=20": "per_task=4"}
    for old, new in smaller.items():
        assert old in script
        script = script.replace(old, new)
    names = {}
    exec(script, names)
    assert names["report"].reason == "" or not names["report"].accepted
