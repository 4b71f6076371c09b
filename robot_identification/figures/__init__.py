# SPDX-License-Identifier: Apache-2.0
"""Figures, and the pages that hold them: one look, drawn by plotly or by matplotlib."""
