# SPDX-License-Identifier: Apache-2.0
"""
Lay both ROS packages side by side in a folder, as bloom and a plain ``colcon build`` want them.

``ros_release.py FOLDER`` exports the files that git tracks.  In this repository
``robot_identification_msgs`` lies inside of ``robot_identification``, where catkin_pkg, and with
it rosdep, bloom and colcon, do not look for a second package.  Each package gets the licence and
``CHANGELOG.rst``, which is made from ``CHANGELOG.md``.
"""

from collections.abc import Iterator
from pathlib import Path
import re
import shutil
import subprocess
import sys

ROOT = Path(__file__).resolve().parents[1]
NAME, MESSAGES = 'robot_identification', 'robot_identification_msgs'
LEFT_OUT = ('.ci', '.github', 'interfaces', 'packaging', MESSAGES)
"""Folders without a part in the first package; set-up alone builds ``interfaces``."""


def release(folder: Path) -> None:
    """
    Write both packages into a folder.

    Raises
    ------
    SystemExit
        if the folder has content, or the repository is no git checkout.

    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SystemExit(f"error: '{folder}' has content: name an empty or new folder")
    for name in _tracked():
        top, _, below = name.partition('/')
        if top not in LEFT_OUT:
            _copy(name, folder / NAME / name)
        elif top == MESSAGES:
            _copy(name, folder / MESSAGES / below)
    _copy('LICENSE', folder / MESSAGES / 'LICENSE')
    text = (ROOT / 'CHANGELOG.md').read_text(encoding='utf-8')
    for package in (NAME, MESSAGES):
        path = folder / package / 'CHANGELOG.rst'
        path.write_text(changelog(text, package), encoding='utf-8')


def changelog(text: str, package: str) -> str:
    """
    Return a changelog in Markdown as catkin_pkg's parser reads it, in reStructuredText (REP 132).

    A version ``(unreleased)`` becomes ``Forthcoming``, as bloom calls it.
    """
    title = f'Changelog for package {package}'
    return '\n'.join(['^' * len(title), title, '^' * len(title), *_lines(text)]) + '\n'


def _lines(text: str) -> Iterator[str]:
    """Iterate over the lines of the versions."""
    for line in text[text.index('## ') :].splitlines():
        if heading := re.fullmatch(r'## (\S+) \((.*)\)', line):
            version, date = heading.groups()
            words = 'Forthcoming' if date == 'unreleased' else f'{version} ({date})'
            yield from (words, '-' * len(words))
        else:
            line = re.sub(r'\[([^]]+)\]\((\S+?)\)', r'`\1 <\2>`__', line.removeprefix('### '))
            yield re.sub(r'(?<!`)`([^`<]+)`(?!`)', r'``\1``', line)


def _tracked() -> list[str]:
    """Return the files that git tracks."""
    try:
        listed = subprocess.run(
            ['git', 'ls-files', '-z'], cwd=ROOT, capture_output=True, check=True, text=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit('error: the release is made of a git checkout: clone it') from error
    return [name for name in listed.stdout.split('\0') if name and (ROOT / name).is_file()]


def _copy(name: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(ROOT / name, target)


if __name__ == '__main__':
    if len(sys.argv) != 2:
        raise SystemExit('usage: ros_release.py FOLDER')
    release(Path(sys.argv[1]))
