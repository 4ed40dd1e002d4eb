"""A small Sphinx extension: what a page must not load, where its links lead, a published book's address."""

import os
import re
from urllib.parse import urlsplit


def setup(app):
    # Jupyter Book always loads sphinx-thebe, whose script is emitted twice and then throws on every page.
    # This book runs live in JupyterLab instead, so none of the extension's hooks is wanted.
    for listeners in app.events.listeners.values():
        listeners[:] = [listener for listener in listeners if not from_thebe(listener.handler)]
    app.registry.css_files[:] = [file for file in app.registry.css_files if "thebe" not in file[0]]
    app.connect("html-page-context", link_to_pages)
    # `make book BOOK_URL=https://…/`, for publishing: absolute addresses for link previews, and a sitemap.
    if url := os.environ.get("BOOK_URL"):
        app.config.html_baseurl = app.config.ogp_site_url = url.rstrip("/") + "/"
        app.config.notfound_urls_prefix = urlsplit(app.config.html_baseurl).path
        app.config.sitemap_url_scheme = "{link}"
        app.setup_extension("sphinx_sitemap")
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def link_to_pages(app, page, template, context, doctree):
    """The notes in outputs name a chapter by its notebook, as JupyterLab wants it. Here it is a page."""
    if "body" in context:
        context["body"] = re.sub(r'(<a href="[\w./-]+)\.(?:ipynb|md)(?=["#])', r"\1.html", context["body"])


def from_thebe(handler) -> bool:
    return getattr(handler, "__module__", "").startswith("sphinx_thebe")
