# SPDX-License-Identifier: Apache-2.0
"""Servos that were identified from commands, as text."""

from __future__ import annotations

import numpy as np

from ..estimation.estimators import ROLLOUT
from ..estimation.tables import rule, wrapped
from ..results.servo_result import ServoResult, total
from ..servo.parameters import KINDS
from ..verdicts.servo_criteria import step_in_words

COLUMNS = (
    ('Ia', 'armature', 'armature'),
    ('fv', 'viscous', 'viscous'),
    ('fc', 'coulomb', 'Coulomb'),
)
"""Symbol, kind and title of the parameters in the table."""


def servo_table(result: ServoResult) -> str:
    """Return a table of the joints: parameters with deviations and before, and errors."""
    std = dict(zip(result.fit.free.names, result.fit.std, strict=True))
    at_bound = dict(zip(result.fit.free.names, result.fit.at_bound, strict=True))
    width = max(6, *(len(joint) for joint in result.robot.joints))
    titles = ''.join(f'{title:>9}{"+-":>8}{"before":>8}' for *_, title in COLUMNS)
    lines = [rule('Joints'), f'{"joint":{width}}{titles}{"error":>7}{"before":>7}']
    errors, nominal = result.errors['fit'], result.errors['nominal']
    for j, joint in enumerate(result.robot.joints):
        line = f'{joint:{width}}'
        for symbol, kind, _ in COLUMNS:
            name = f'{joint}.{symbol}'
            value, before = result.parameters.values(kind)[j], result.nominal.values(kind)[j]
            deviation = 'bound' if at_bound[name] else f'{std[name]:.2g}'
            line += f'{value:9.3g}{deviation:>8}{before:8.3g}'
        lines.append(f'{line}{1e3 * errors[j]:7.2f}{1e3 * nominal[j]:7.2f}')
    units = (
        'armature kg m^2, viscous N m s/rad, Coulomb N m, error of unseen positions mrad '
        '(slides: kg, N s/m, N, mm)'
    )
    return '\n'.join([*lines, *wrapped(units, '')])


def servo_facts(result: ServoResult) -> str:
    """Return what the numbers rest on: delays, errors, step, coverage, centres of mass, gains."""
    free, parameters = result.fit.free, result.parameters
    others = {
        'without_play': 'without play, as files for simulators have it,',
        'nominal': 'robot file',
        'start': 'least squares alone',
    }
    beside = [
        f'{title} {1e3 * result.total_error(name):.2f}'
        for name, title in others.items()
        if name in result.errors
    ]
    lines = [
        *(
            f'delay of {joints} {1e3 * delay:.2f} +- {1e3 * std:.2g} ms'
            for joints, delay, std in result.delays()
        ),
        f'error of unseen motion {1e3 * result.total_error():.2f} mrad{_begun_anew(result)}; '
        f'{", ".join(beside)}',
        f'for a step of {step_in_words(result)}: parameters hold for no other; '
        f'{result.fit.rollouts} rollouts, {result.seconds:.1f} s'
        if result.method == ROLLOUT
        else f'least squares; errors are simulated at {step_in_words(result)}, '
        f'{result.seconds:.1f} s',
        f'{result.coverage.count} sets from the spread over blocks cover '
        f'{100 * result.coverage.sets:.0f} % of unseen positions where 90 % are wanted, with '
        f"each joint's residual as noise {100 * result.coverage.with_residual:.0f} %",
    ]
    if 'center' in free.kinds:
        moved = 1e3 * np.abs(parameters.centers).max(axis=1)
        most = sorted(zip(moved, result.robot.links, strict=True), reverse=True)[:3]
        lines.append(
            'centres of mass are moved by up to '
            + ', '.join(f'{distance:.0f} mm ({link})' for distance, link in most)
            + '; masses are as in the robot file'
        )
    if free.playing:
        lines.append(f'play before the measured position: {", ".join(_plays(result))}')
    for kind, title in (('stiffness', 'factor on kp'), ('damping', 'factor on kd')):
        if kind in free.kinds:
            symbol = KINDS[kind].symbol
            values = [
                f'{joint} {parameters.values(kind)[j]:.3f} +- '
                f'{result.fit.std[free.names.index(f"{joint}.{symbol}")]:.2g}'
                for j, joint in enumerate(result.robot.joints)
            ]
            lines.append(f'{title}: {", ".join(values)}')
    texts = [line for text in lines for line in wrapped(text, '')]
    return '\n'.join(texts)


def _begun_anew(result: ServoResult) -> str:
    """Return the error of rollouts that begin anew, where it is another one."""
    anew = total(result.anew)
    if anew == result.total_error():
        return ''
    return (
        f' over whole motions ({1e3 * anew:.2f} in {result.starts} rollouts that begin anew, '
        'where what follows each start does not count)'
    )


def _plays(result: ServoResult) -> list[str]:
    """Return the play of each joint that has some, with its deviation."""
    std = dict(zip(result.fit.free.names, result.fit.std, strict=True))
    texts = []
    for j in result.fit.free.playing:
        joint, play = result.robot.joints[j], result.parameters.play[j]
        deviation = std[f'{joint}.{KINDS["play"].symbol}']
        texts.append(f'{joint} {1e3 * play:.3g} +- {1e3 * deviation:.2g} mrad or mm')
    return texts
