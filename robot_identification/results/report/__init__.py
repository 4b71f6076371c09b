# SPDX-License-Identifier: Apache-2.0
"""
Report of an identification: figures, and one HTML page with all of them.

The figures are in `fit_plots` and `parameter_plots`.
"""

from .html import html

__all__ = ['html']
