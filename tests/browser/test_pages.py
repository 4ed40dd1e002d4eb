"""The built pages: nothing fails, nothing is fetched from elsewhere, and what can be played with answers."""

from collections import defaultdict
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

PHONE = {"viewport": {"width": 390, "height": 844}}
TABLET = {"viewport": {"width": 1100, "height": 800}}  # the theme has dropped its right-hand column


@pytest.fixture(params=["book_site", "sample_site"])
def site(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["http", "file"])
def address(request, site, serve):
    return serve(site) if request.param == "http" else site.as_uri() + "/"


def pages(site) -> list[str]:
    found = [path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html"))]
    # The front page only leads to the first one; following it is the browser's business.
    return [path for path in found if not path.startswith("_static") and path != "index.html"]


def test_every_page_loads_alone(site, address, visit):
    seen = visit(address)
    for path in pages(site):
        if path == "404.html" and address.startswith("file:"):
            continue  # a server shows it at any depth, so it names its files from the server's root
        seen.page.goto(address + path)
        seen.page.evaluate("() => window.MathJax?.startup?.promise.then(() => true)")  # until it is typeset
    assert seen.problems == []


SET = "(it, value) => { it.value = value; it.dispatchEvent(new Event('input', {bubbles: true})); }"


class Links(HTMLParser):
    """The anchors of a page, and its links with the text in each."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors, self.links, self._open = set(), defaultdict(str), None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors |= {attributes.get("id"), attributes.get("name")}
        if tag == "a" and "href" in attributes:
            self._open = attributes["href"]
            self.links[self._open] += attributes.get("aria-label") or attributes.get("title") or ""
        elif self._open is not None:
            self.links[self._open] += attributes.get("alt") or attributes.get("aria-label") or ""

    def handle_data(self, data):
        if self._open is not None:
            self.links[self._open] += data.strip()

    def handle_endtag(self, tag):
        if tag == "a":
            self._open = None


def test_every_link_leads_somewhere_and_says_where(site):
    parsed = {path: Links((site / path).read_text(encoding="utf-8")) for path in pages(site)}
    broken = []
    for path, page in parsed.items():
        for href, text in page.links.items():
            if path == "404.html" or urlsplit(href).scheme:
                continue  # the error page names its files from the server's root; elsewhere is not ours
            if not text:
                broken.append(f"{path}: a link to {href} without words")
            file, anchor = unquote(urlsplit(href).path), unquote(urlsplit(href).fragment)
            target = (site / path).parent / file if file else site / path
            name = target.resolve().relative_to(site.resolve()).as_posix()
            if not target.is_file() or (anchor and name in parsed and anchor not in parsed[name].anchors):
                broken.append(f"{path}: {href}")
    assert broken == []


def test_every_explorer_answers(site, address, visit):
    seen = visit(address)
    for path in pages(site):
        if "data-explorer=" not in (site / path).read_text(encoding="utf-8"):
            continue
        seen.page.goto(address + path)
        for explorer in seen.page.locator(".bk-explorer").all():
            picture, readout = explorer.locator(".bk-picture"), explorer.locator(".bk-readout")
            for knob in explorer.locator("[data-knob]").all():
                start = knob.evaluate("it => it.value")
                states = {(picture.inner_html(), readout.inner_text())}
                if knob.evaluate("knob => knob.tagName") == "SELECT":
                    for index in range(knob.locator("option").count()):
                        knob.select_option(index=index)
                        states.add((picture.inner_html(), readout.inner_text()))
                else:
                    for key in ("Home", "ArrowRight", "End"):
                        knob.press(key)
                        states.add((picture.inner_html(), readout.inner_text()))
                assert len(states) > 1, f"{path}: {knob.get_attribute('id')} changes nothing"
                drawings, words = zip(*states, strict=True)
                assert len(set(drawings)) > 1 and len(set(words)) > 1
                knob.evaluate(SET, start)  # where one knob ends, another may have nothing to say
    assert seen.problems == []


@pytest.mark.parametrize("screen", [PHONE, TABLET], ids=["phone", "tablet"])
def test_pages_fit_the_screen(site, serve, visit, screen):
    seen = visit(address := serve(site), **screen)
    for path in pages(site):
        seen.page.goto(address + path)
        wide = seen.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= screen["viewport"]["width"], f"{path} is {wide} pixels wide"


def test_mathematics_is_drawn_in_text_and_in_outputs(sample_site, serve, visit):
    seen = visit(address := serve(sample_site))
    seen.page.goto(address + "book/01_sample.html")
    for place in ("section > p", ".bk-note", ".bk-quiz label"):
        seen.page.locator(f"{place} mjx-container svg").first.wait_for()


def test_the_first_state_of_an_explorer_needs_no_script(sample_site, serve, visit):
    seen = visit(address := serve(sample_site), java_script_enabled=False)
    seen.page.goto(address + "book/01_sample.html")
    assert seen.page.locator(".bk-explorer .bk-picture svg path").count() > 4
    assert "mean return" in seen.page.locator(".bk-explorer .bk-readout").inner_text()


def test_a_quiz_explains_each_choice(sample_site, serve, visit):
    seen = visit(address := serve(sample_site))
    seen.page.goto(address + "book/01_sample.html")
    quiz = seen.page.locator(".bk-quiz")
    quiz.get_by_role("radio").nth(1).check()
    assert quiz.locator(".bk-reason").inner_text().startswith("Not quite. Those are thrown away")
    quiz.get_by_role("radio").nth(1).press("ArrowUp")  # a keyboard is enough
    assert quiz.locator(".bk-reason").inner_text().startswith("Right. Every task starts")


def test_code_is_copied_without_its_line_numbers(sample_site, serve, visit):
    seen = visit(address := serve(sample_site))
    seen.page.goto(address + "book/01_sample.html")
    copied = seen.page.locator(".bk-listing pre").evaluate(
        "pre => { getSelection().selectAllChildren(pre); return getSelection().toString() }"
    )
    assert copied.startswith('"""')
    assert "\nimport gymnasium\n" in copied


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_listings_explorers_and_quizzes_can_be_read(sample_site, serve, visit, scheme):
    """Text stands out from what is behind it by a contrast of at least 4.5, as WCAG asks."""
    seen = visit(address := serve(sample_site), color_scheme=scheme)
    seen.page.goto(address + "book/01_sample.html")
    seen.page.wait_for_function(f"document.documentElement.dataset.theme === '{scheme}'")
    low = seen.page.evaluate(CONTRAST, ".bk-listing, .bk-listing *, .bk-explorer *, .bk-quiz *")
    assert low == []


CONTRAST = """selector => {
  const channels = color => (color.match(/[\\d.]+/g) || []).map(Number);
  const luminance = color => {
    const linear = c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = channels(color).map(c => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = element => {
    for (; element; element = element.parentElement) {
      const color = getComputedStyle(element).backgroundColor;
      if ((channels(color)[3] ?? 1) > 0) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const low = new Set();
  for (const element of document.querySelectorAll(selector)) {
    if (element.closest("svg, mjx-container, script")) continue;
    if (![...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())) continue;
    const text = luminance(getComputedStyle(element).color), page = luminance(behind(element));
    const ratio = (Math.max(text, page) + 0.05) / (Math.min(text, page) + 0.05);
    if (ratio < 4.5) low.add(`${element.tagName}.${element.className}: ${ratio.toFixed(2)}`);
  }
  return [...low];
}"""
