"""How the site is built: ``./run docs``, offline, with warnings as errors."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
os.environ.setdefault("OMP_NUM_THREADS", "2")  # examples are timed on two cores

import atklearn

project = "atklearn"
author = "The atklearn developers"
copyright = author
version = release = atklearn.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "matplotlib.sphinxext.plot_directive",
    "myst_parser",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "public_names",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "README.md"]
templates_path = ["_templates"]
nitpicky = True
# Names of other libraries: their pages are elsewhere, and the build needs no network. Ours have to be found.
nitpick_ignore_regex = [(r"py:.*", r"(?!atklearn\b).*")]
suppress_warnings = ["config.cache"]  # the order of the gallery is a function, which is not cached

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "html_image"]
myst_heading_anchors = 4

toc_object_entries_show_parents = "hide"  # the names of methods fit beside the page
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # the docstrings say them in words
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False  # `autodoc` lists them, once
numpydoc_validation_checks = set()

doctest_test_doctest_blocks = ""  # those of docstrings run with the tests
doctest_global_setup = """
import warnings
import numpy as np
"""

plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("svg", 72)]
plot_rcparams = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "path"}
plot_apply_rcparams = True

GALLERY = [
    "plot_late_flights.py",
    "plot_deliveries.py",
    "plot_rare_group.py",
    "plot_mislabelled.py",
    "plot_heavy_tails.py",
    "plot_boosting.py",
    "plot_hard_pixels.py",
    "plot_streaming.py",
    "plot_cluster.py",
]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "ignore_pattern": r"^(?!plot_)",  # the others are scripts of their own
    "within_subsection_order": "public_names.listed_order",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("atklearn",),
    "abort_on_example_error": True,
    "only_warn_on_example_error": False,
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "matplotlib_animations": False,
    "min_reported_time": 0,
    "plot_gallery": os.environ.get("ATKLEARN_DOCS_GALLERY", "1") == "1",
}

html_theme = "pydata_sphinx_theme"
html_title = "atklearn"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/mark.svg"
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
html_theme_options = {
    "logo": {"text": "atklearn", "image_light": "_static/mark.svg", "image_dark": "_static/mark.svg"},
    "header_links_before_dropdown": 6,
    "navbar_persistent": [],
    "navbar_end": ["search-button", "theme-switcher"],
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
}
html_sidebars = {"index": [], "five-minutes": [], "benchmarks": []}
