# SPDX-License-Identifier: Apache-2.0
"""
Run benchmarks, each in a process of its own: all of them, or those named.

    .venv/bin/python -m benchmarks [regressor streaming_qr recording_length ...]
"""

from __future__ import annotations

from pathlib import Path
import subprocess
import sys

FOLDER = Path(__file__).resolve().parent


def main(names: list[str]) -> int:
    """Run the benchmarks called ``names``; return the number that failed."""
    known = sorted(path.stem for path in FOLDER.glob('[!_]*.py'))
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f'error: no benchmark {unknown[0]}: there are {", ".join(known)}', file=sys.stderr)
        return 2
    failed = 0
    for name in names or known:
        print(f'\n== {name}', flush=True)
        done = subprocess.run([sys.executable, FOLDER / f'{name}.py'], cwd=FOLDER.parent)
        failed += done.returncode != 0
    return failed


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
