# SPDX-License-Identifier: Apache-2.0
"""Writes what the benchmarks found as pages of ``docs/reference``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
import os
from pathlib import Path
import platform
import re
import textwrap

DOCS = Path(__file__).resolve().parents[1] / 'docs' / 'reference'

_PERFORMANCE = """\
# How fast it is

Every figure on this page is written by `make bench` (`make bench ARGS=regressor` renews one
section); each section names the machine that it was measured on. Ways that are compared are timed
in one run, turn by turn; times are medians unless said otherwise, ratios are medians of the
rounds' ratios. Linear algebra runs on one thread.
"""

_REAL_ROBOTS = """\
# Real robots

What `make bench ARGS=real_robots` finds on recordings of real robots, if they are in a folder
`shared/data` beside this repository or in the one that `REAL_RECORDINGS` names: a UR10e by its
motor currents and published gains (N m/A at the joint: 14.87 13.26 11.13 10.62 11.03 11.47;
recordings of the public repository dynamic_calibration), a Staeubli TX-40 by its motors
(`examples/tx40`), a KUKA LBR Med 7 (joint torques whose sign is not the URDF's; 11 s, validated on
5.5 s of up to 1.9 times the speeds) and a KUKA KR 300 R2500 (motor torques, some 150 kg at the
flange, half of the rows at rest; two runs of 10 s and a third to validate). 84 % of the squared
error on the KR 300 are of the 1.4 s before its first motion: dry friction at rest is what an
earlier motion left, and the runs, which begin in the same pose, have 720, 1374 and 3839 N m at
joint A2 there. After these 1.4 s the error is 6.0 %; weighted least squares fitted to the third
run itself, with the same terms, leave 12.0 % of all of it. A Franka Panda
(FrankaEmikaPandaDynModel), a KUKA LWR 4+ (FloBaRoID) and a Rokae xMate 7 Pro (xMate7p_dyn_ident)
have torque sensors at their joints.

What misses its bound here does so for reasons that no setting mends:

- KR 300: see above. The defaults, fitted to the third run itself, leave 12.5 % of it.
- LWR: of twenty models (friction, springs, breakaway, tilt; no channels of single joints), each
  with several strengths of the prior, none comes below 3.01 % at double speed, and the three fits
  below 2.1 % on the second run have 3.01, 3.40 and 3.61 % there. With channels, 1.88 to 1.99 % on
  the second run go with 3.26 to 3.41 %.
- xMate 7: runs of 5 s, in which five stretches of one second ask for a weaker prior than the other
  runs do. From run 2, a strength of 100 in place of 32 predicts run 3 to 2.69 %; the stretches
  hold that 3.6 % against it, with a standard error of 5 %. From run 3, 316 predicts the others to
  3.70 and 3.19 %, and is worse by 15 +- 9 % on the stretches. Over 18 fits on these robots, the
  strength that the rule takes is 3.5 % worse than the best in hindsight, on the mean; a tolerance
  of 5 % in place of one per cent makes that 3.3 %, means over the stretches' logarithms 7 to 12 %,
  a fixed strength of 30 or 100 16 to 21 %.

Three kinds of settings are compared:

- **plain least squares**: weighted least squares at a setting that suits the robot: UR10e
  measured velocity, 7.5 Hz, decimated to 20 Hz; TX-40 positions, 100 Hz, decimated to 50 Hz.
  Viscous and Coulomb friction, offset and rotor inertia at every joint.
- **old defaults**: the same model and method, positions, 25 Hz, decimated to 50 Hz.
- **defaults**: no key of `signals` or `estimation`, no friction, nothing but the robot and its
  data.

The UR10e is identified from `excite_30s_a` and predicts four other runs; the TX-40 is identified
from 0.06 to 5.2 s of its recording and predicts 5.2 to 7.7 s, the Panda from 0.2 to 14.8 s and
predicts the rest, the LWR from one run and predicts another and one at double speed, the xMate 7
from each of its three runs of 5 s and predicts the others. Judged are files alone, by the
benchmark's own means: the tables of [`validate
--predictions`](../explanation/estimation.md#judge-it-yourself---predictions), `result.yaml` and
the URDF. Errors are 100 |measured - predicted| / |measured| after a Butterworth filter of order 4,
forward and backward: 7.5 Hz for the UR10e, 8 Hz for the LWR, 5 Hz for the Med 7, 20 Hz for the
TX-40, whose fast moves have more in them, 10 Hz for the others. All samples count, both ends
included.

Masses are compared with those of the maker's URDF (UR10e) or the paper's a priori table (TX-40),
links in their order; *physical* is a positive definite pseudo-inertia of every link, *plausible*
also a mass of 0.4 to 2.5 times the maker's for every link and a total within 15 %. The last
columns of the model's table have the spread of each base parameter over the four excitation runs
without load by its stated standard deviation, the median over the parameters: 1 is honest, 3
means that deviations are three times too small. *stated error* is what the result says is to be
expected on other motions as fast as the identification, within all of the joints' limits.
"""

_FLOATING = """# Robots on their feet

What `make bench ARGS=floating` finds on a quadruped and a humanoid that MuJoCo simulates, from
joints, efforts and an IMU ([how to](../how_to/on_its_feet.md)). No recording of a real robot is
among them.
"""

HEADS = {
    'performance.md': _PERFORMANCE,
    'real_robots.md': _REAL_ROBOTS,
    'floating.md': _FLOATING,
}
"""How the pages begin."""

PACKAGES = ('numpy', 'scipy', 'numba', 'pin', 'dask')


def machine() -> dict[str, str]:
    """Say what this is measured on."""
    return {
        'processor': _processor(),
        'cores': str(len(os.sched_getaffinity(0))),
        'python': platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
    }


def _processor() -> str:
    for line in Path('/proc/cpuinfo').read_text().splitlines():
        if line.startswith('model name'):
            return line.partition(':')[2].strip()
    return platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return 'not installed'


_MARK = re.compile(r'^<!-- made by (\w+) -->\n', re.MULTILINE)
"""Line before a section, with the name of its benchmark."""


def write_pages(results: Mapping[str, dict], order: Sequence[str]) -> None:
    """
    Write the sections of these benchmarks into their pages; all others stay as they are.

    Parameters
    ----------
    results:
        What was found, by the names of the benchmarks.
    order:
        Names of all benchmarks, in the order of their sections.  A section of a page that none of
        them makes is left out.

    """
    for page, head in HEADS.items():
        path = DOCS / page
        own = {
            name: _section(found)
            for name, found in results.items()
            if found.get('page', 'performance.md') == page
        }
        if own:
            sections = (_sections(path.read_text()) if path.is_file() else {}) | own
            parts = [
                f'<!-- made by {name} -->\n{sections[name]}' for name in order if name in sections
            ]
            path.write_text('\n'.join([head, *parts]))


def _sections(page: str) -> dict[str, str]:
    """Return the sections of a page, by the names of their benchmarks."""
    _, *parts = _MARK.split(page)
    texts = (f'{text.rstrip()}\n' for text in parts[1::2])
    return dict(zip(parts[::2], texts, strict=True))


def _section(found: dict) -> str:
    parts = [f'## {found["title"]}\n']
    if found['text']:
        parts.append(_wrapped(found['text']))
    for table in found['tables']:
        if table['title']:
            parts.append(f'### {table["title"]}\n')
        if table['text']:
            parts.append(_wrapped(table['text']))
        parts.append(_table(table['columns'], table['rows']))
    held = [figure for figure in found['figures'] if figure['bound']]
    if held:
        rows = [
            [
                figure['name'],
                f'{figure["value"]:.4g} {figure["unit"]}'.strip(),
                figure['bound'],
                'yes' if figure['met'] else '**no**',
            ]
            for figure in held
        ]
        parts.append(_table(['held to a bound', 'found', 'bound', 'met'], rows))
    parts += [f'![{Path(image).stem}]({image})\n' for image in found['images']]
    machine_words = ', '.join(f'{key} {value}' for key, value in found['machine'].items())
    parts.append(
        _wrapped(f'*Measured on: {machine_words}; the benchmark took {found["seconds"]:.0f} s.*')
    )
    return '\n'.join(parts)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ['| ' + ' | '.join(columns) + ' |', '|---' + '|---:' * (len(columns) - 1) + '|']
    lines += ['| ' + ' | '.join(row) + ' |' for row in rows]
    return '\n'.join(lines) + '\n'


def _wrapped(text: str) -> str:
    paragraphs = text.strip().split('\n\n')
    return (
        '\n\n'.join(
            paragraph if paragraph.startswith(('-', '|', '```')) else textwrap.fill(paragraph, 99)
            for paragraph in paragraphs
        )
        + '\n'
    )
