# SPDX-License-Identifier: Apache-2.0
"""Version of the package, written once for Python, setup and files."""

__version__ = '0.2.0'
