"""A small Sphinx extension: what the built pages load, beyond Jupyter Book's defaults."""


def setup(app):
    app.connect("html-page-context", drop_thebe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def drop_thebe(app, pagename, templatename, context, doctree):
    """Take out sphinx-thebe's scripts: this book's live code is JupyterLab, and they throw on every page."""
    for kind in ("script_files", "css_files"):
        context[kind] = [file for file in context.get(kind, []) if "thebe" not in str(getattr(file, "filename", file))]
    if "thebe" in context.get("metatags", ""):
        context["metatags"] = context["metatags"].replace("thebe", "")
