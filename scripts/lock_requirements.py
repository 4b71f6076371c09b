# SPDX-License-Identifier: Apache-2.0
"""
Write ``requirements/constraints.txt``: the version of every package, indirect ones included.

The direct dependencies are pinned by hand, with their reasons.  What they bring along is pinned
here, so that a set-up next year installs what was tested, and pip has nothing to search for.
After changing a pin, make an environment with each Python (in clones of the repository, without
the old constraints) and name them all::

    python3 scripts/lock_requirements.py py310/.venv py311/.venv py312/.venv py313/.venv

Environments of another ROS distribution, ``.venv-kilted``, make ``constraints-kilted.txt``.
"""

import json
from pathlib import Path
import re
import subprocess
import sys

HEAD = """\
# Written by scripts/lock_requirements.py: the version of every package, indirect ones included.
"""

_ASK = """
import importlib.metadata, json, sys
found = {}
for distribution in importlib.metadata.distributions():
    # Installed as such; the ROS wheels hold files that look like further packages.
    if (distribution.read_text('INSTALLER') or '').strip() in ('pip', 'uv'):
        found[distribution.metadata['Name']] = distribution.version
print(json.dumps(['%d.%d' % sys.version_info[:2], found]))
"""

OWN = ('robot-identification', 'robot-identification-msgs', 'pip', 'uv')


def normalised(name):
    """Spell a package's name as PEP 503 does."""
    return re.sub(r'[-_.]+', '-', name).lower()


def constraints(installed):
    """
    Merge what is installed with each Python into one list of constraints.

    Parameters
    ----------
    installed : dict of str to dict
        For each Python version the installed packages' versions by name.

    Returns
    -------
    list of str
        Lines, sorted by name; with a marker where the Pythons differ.
    """
    by_name = {}
    for python, packages in installed.items():
        for name, version in packages.items():
            if normalised(name) not in OWN:
                by_name.setdefault(normalised(name), {})[python] = version
    lines = []
    for name, versions in sorted(by_name.items()):
        if len(set(versions.values())) == 1:
            lines.append(f'{name}=={next(iter(versions.values()))}')
            continue
        in_order = sorted(versions, key=lambda python: [int(part) for part in python.split('.')])
        lines += [f'{name}=={versions[p]}; python_version == "{p}"' for p in in_order]
    return lines


def main(environments):
    """Read the environments and write the file."""
    installed = {}
    for environment in environments:
        command = [str(Path(environment, 'bin', 'python')), '-c', _ASK]
        python, packages = json.loads(subprocess.check_output(command))
        installed[python] = packages
    root = Path(__file__).resolve().parent.parent
    ros = Path(environments[0]).name.replace('.venv', '')
    target = root / 'requirements' / f'constraints{ros}.txt'
    target.write_text(HEAD + '\n'.join(constraints(installed)) + '\n')
    print(f'{target}: Python {", ".join(sorted(installed))}')


if __name__ == '__main__':
    main(sys.argv[1:])
