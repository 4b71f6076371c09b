# SPDX-License-Identifier: Apache-2.0
"""
Layout for PlotJuggler, whose curves are of a robot's joints.

PlotJuggler shows a curve by its full name only, and names those of joint states after the joints.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import jinja2

_SHOWN = 8  # parameters, the first ones


def plotjuggler_layout(joints: Sequence[str]) -> str:
    """Return the layout, in XML, that shows what the nodes publish of a robot."""
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined, autoescape=True
    )
    path = Path(__file__).with_name('plotjuggler.xml.j2')
    tabs = _tabs(joints)
    curves = (name for areas in tabs.values() for _, curves in areas for name in curves)
    return environment.from_string(path.read_text(encoding='utf-8') + '\n').render(
        tabs=tabs, topics=list(dict.fromkeys(_topic(name) for name in curves))
    )


def _tabs(joints: Sequence[str]) -> dict[str, list[tuple[str, list[str]]]]:
    """Return titles of plots with the names of their curves, tab by tab."""
    places, shown = range(len(joints)), range(_SHOWN)
    online = '/identification/online'
    return {
        'Efforts from outside': [
            ('External effort', [f'/observer/external_effort/{j}/effort' for j in joints]),
            ('Threshold', [f'/observer/external_effort_threshold/{j}/effort' for j in joints]),
            ('Contact', ['/observer/contact/data']),
        ],
        'Measured and predicted': [
            (j, [f'/observer/{kind}_effort/{j}/effort' for kind in ('measured', 'predicted')])
            for j in joints
        ],
        'Live identification': [
            ('Parameters', [f'{online}/parameters/parameters[{k}]/value' for k in shown]),
            ('Standard deviations', [f'{online}/parameters/parameters[{k}]/std' for k in shown]),
            (
                'Updates',
                [f'{online}/status/{k}' for k in ('rate', 'lost', 'late_updates', 'state')],
            ),
        ],
        'Identification': [
            ('Fit', [f'/identification/fit/joints[{k}]/rmse' for k in places]),
            (
                'Relative standard deviations',
                [f'/identification/parameters/parameters[{k}]/relative_std' for k in shown],
            ),
        ],
        'Recorder': [
            ('Rate', ['/recorder/status/rate']),
            ('Faults', [f'/recorder/status/{name}' for name in ('gaps', 'lost', 'overflowed')]),
            ('Recording', [f'/recorder/status/{name}' for name in ('recording', 'messages')]),
        ],
    }


def _topic(curve: str) -> str:
    """Return the topic of a curve: all topics but those of the live estimate have two names."""
    names = curve.split('/')
    return '/'.join(names[: 4 if names[2] == 'online' else 3])
