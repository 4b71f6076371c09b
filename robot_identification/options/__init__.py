# SPDX-License-Identifier: Apache-2.0
"""Options declared once: unit, range and description of each field, and its key in files."""
