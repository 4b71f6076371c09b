# SPDX-License-Identifier: Apache-2.0
"""
Report of an identification: figures, and one HTML page with all of them.

The figures are in `fit_plots` and `parameter_plots`.
"""

from .html import html, write_report

__all__ = ['html', 'write_report']
