"""Settings of the site: `make docs` builds it."""

import importlib.metadata
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))

from _site import coverage, docstrings, gallery, notebooks, reference  # noqa: E402

project = "learndyn"
author = copyright = "The learndyn developers"
version = release = importlib.metadata.version("learndyn")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "_site.mathml"]
html_math_renderer = "mathml"
exclude_patterns = ["_build", "_site", "results/*/*/notes.md"]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence", "attrs_inline"]
myst_heading_anchors = 3
# Notes are linked from the page of results, and stand in no list.
suppress_warnings = ["myst.header", "toc.not_included"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
autodoc_inherit_docstrings = False  # what all members of a family do stands at their base class
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # fields that a text describes are not members a second time
python_use_unqualified_type_names = True
default_role = "code"
nitpicky = True

html_theme = "furo"
html_title = "learndyn"
html_static_path = ["static"]
html_css_files = ["learndyn.css"]
html_copy_source = False
html_show_search_summary = False  # browsers do not fetch pages of a site that is opened as files
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}


def generate(app) -> None:
    """Writes the pages that come from the code, before Sphinx looks for sources."""
    reference.write(HERE / "generated" / "api")
    coverage.write(HERE / "generated")
    notebooks.write(HERE, HERE / "generated" / "notebooks")
    gallery.write(HERE / "results", HERE / "generated" / "gallery")


def setup(app) -> None:
    """Connects what the site adds."""
    app.connect("builder-inited", generate)
    app.connect("autodoc-process-docstring", docstrings.process, priority=900)
    app.connect("autodoc-process-bases", docstrings.bases)
    app.connect("missing-reference", docstrings.missing)
