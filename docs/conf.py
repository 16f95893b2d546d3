"""How Sphinx makes the site of the pages that `make site` has collected: see utils/manage/site.py."""

import sys
from pathlib import Path

from docutils import nodes

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent)]

from utils.manage.highlighting import CudaInPython  # noqa: E402
from utils.manage.site import glossary  # noqa: E402

project = "CUDA from Python"
author = "the authors of the course"
html_show_copyright = False
extensions = ["myst_nb"]
exclude_patterns = ["images"]

nb_execution_mode = "off"  # the committed outputs are shown, from a machine with a GPU
nb_merge_streams = True
myst_heading_anchors = 3  # links such as README.md#lessons
show_warning_types = True

html_theme = "sphinx_book_theme"
html_title = "CUDA from Python"
html_static_path = [str(DOCS / "_static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_theme_options = {
    "navbar_persistent": [],  # one search field is enough: the sidebar has it
    "use_download_button": False,  # it offers the collected page, not the lesson
    "show_toc_level": 2,
    "show_navbar_depth": 1,
    "home_page_in_toc": True,
}


def explain_terms(app, doctree, docname):
    """Give every link to the glossary the term's sentence as its title, which browsers show under the mouse."""
    sentences = {f"glossary.html#term-{entry.slug}": entry.plain for entry in glossary()}
    for link in doctree.findall(nodes.reference):
        if link.get("refuri") in sentences:
            link["reftitle"] = sentences[link["refuri"]]


def setup(app):
    app.add_lexer("python", CudaInPython)
    app.connect("doctree-resolved", explain_terms)
