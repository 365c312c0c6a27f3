"""The site: `make docs` builds it into build/site, with every example run."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from dpsubset.version import __version__

project = "dpsubset"
author = "The dpsubset developers"
copyright = author
release = version = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "ran",
    "rooted",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",  # formulas without a word to anybody's server
]
exclude_patterns = ["_ext", "_static", "examples", "tests", "tried", "**/README.rst"]
suppress_warnings = [
    "config.cache",
    "myst.header",  # pages that scripts write may leave a level of heads out
    "myst.xref_missing_local",
]

html_theme = "furo"
html_title = "dpsubset"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "source_repository": "https://github.com/dpsubset/dpsubset/",
    "source_branch": "main",
    "source_directory": "docs/",
    "navigation_with_keys": True,
}
pygments_style = "default"
pygments_dark_style = "monokai"
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
copybutton_exclude = ".linenos, .gp, .go"

myst_enable_extensions = ["amsmath", "deflist", "dollarmath", "fieldlist"]
myst_dmath_allow_labels = False
myst_dmath_double_inline = True
myst_heading_anchors = 4

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings say them
autodoc_preserve_defaults = True
add_module_names = False
python_use_unqualified_type_names = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "reset_modules": ("matplotlib",),
    "show_memory": False,
    "min_reported_time": 1,
    "plot_gallery": "True",
    "image_scrapers": ("matplotlib",),
    "show_signature": False,
    "write_computation_times": False,
}


def _escaped(app, what, name, obj, options, lines):
    """Let |y| be a number's size, and docs/page.md a link, as docstrings mean it; examples stay."""
    example = False
    for i, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            lines[i] = re.sub(r"docs/([\w-]+)\.md", r":doc:`/\1`", line.replace("|", "\\|"))


def setup(app):
    """Listen to docstrings before numpydoc does."""
    app.connect("autodoc-process-docstring", _escaped, priority=400)
