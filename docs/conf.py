# SPDX-License-Identifier: Apache-2.0
"""Settings of the site that `make docs` builds from these pages and the package's docstrings."""

from pathlib import Path
import sys

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the docstrings of these sources

from robot_identification.version import __version__

project = 'robot_identification'
author = copyright = 'the robot_identification developers'
release = version = __version__
extensions = ['myst_parser', 'sphinx.ext.autodoc', 'sphinx.ext.napoleon']
exclude_patterns = ['_build']

myst_enable_extensions = ['dollarmath']
myst_heading_anchors = 4  # the anchors that GitHub gives headings

default_role = 'py:obj'  # what stands between single backticks in a docstring
autodoc_member_order = 'bysource'
autodoc_preserve_defaults = True
autodoc_typehints = 'none'  # docstrings state shapes and units, which types lack
add_module_names = False
toc_object_entries_show_parents = 'hide'
napoleon_attr_annotations = False
napoleon_use_ivar = True

html_theme = 'furo'
html_title = project
html_static_path = ['_static']
html_css_files = ['site.css']
html_show_copyright = html_show_sphinx = html_copy_source = False
html_math_renderer = 'mathml'


def _mathml(node: nodes.Element, display: bool) -> str:
    """Return an equation as MathML, which browsers draw without a script or a network."""
    tree = latex2mathml.tex2mathml(node.astext(), as_block=display)
    return f'<div class="math">{tree}</div>' if display else tree


def _visit_inline(self, node: nodes.math) -> None:
    self.body.append(_mathml(node, display=False))
    raise nodes.SkipNode


def _visit_block(self, node: nodes.math_block) -> None:
    self.body.append(_mathml(node, display=True))
    raise nodes.SkipNode


def _without_fields(app, what, name, obj, options, signature, returns):
    """Leave a class's long signature out: its fields are listed below it."""
    return ('', None) if what == 'class' else (signature, returns)


def setup(app: Sphinx) -> None:
    """Register the renderer of equations and what shortens signatures."""
    app.connect('autodoc-process-signature', _without_fields)
    app.add_html_math_renderer('mathml', (_visit_inline, None), (_visit_block, None))
