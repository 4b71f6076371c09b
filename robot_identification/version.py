# SPDX-License-Identifier: Apache-2.0
"""Version and repository of the package, written once for Python, setup and files."""

__version__ = '0.2.0'

REPOSITORY = 'https://github.com/robot-identification/robot_identification'
"""Where sources and pages are."""


def page(name: str) -> str:
    """Return the address of a page of ``docs/``, for messages; an installation has no pages."""
    return f'{REPOSITORY}/blob/main/docs/{name}.md'
