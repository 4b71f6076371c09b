# SPDX-License-Identifier: Apache-2.0
"""Criteria of servos that were identified from commands, without efforts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..estimation.estimators import ROLLOUT
from ..results.servo_result import CORRELATED, ServoResult, total
from .reason import COLLISIONS, CONTROL, PREDICTION, Reason, SIMULATION

LARGE_SHARE = 0.1
"""Error of a joint's position by its motion that rules out simulation."""
WORSE = 1.2
"""Ratio to the error of the robot file above which a joint is said to be worse."""
NAMED_JOINTS, NAMED_PARAMETERS = 4, 8
"""Most joints and parameters that a reason names."""
STARTED_ANEW = 1.1
"""Ratio of errors over whole motions to those of rollouts that begin anew that is worth a word."""
EARLY_STDS = 3.0
"""Standard deviations below zero above which a delay is none."""
CONFUSED_SHARE = 30.0
"""Share of armature or viscous friction [%] that the deviation of the delay may make of it."""
MOVED_STDS = 3.0
"""Ratio to center_of_mass_std above which a centre of mass is moved too far."""


def servo_scope(result: ServoResult) -> str:
    """Return on what the result was validated, in words."""
    seen = 'every second block of the recordings' if result.held_out else 'other recordings'
    at = '' if result.simulator.named else f' at an assumed step of {step_in_words(result)}'
    return f'validated on {seen}, by rollouts{at}'


def step_in_words(result: ServoResult) -> str:
    """Return step and integrator of the simulation."""
    model = result.fit.model
    return f'{1e3 * model.timestep:g} ms with {model.integrator}'


def efforts(result: ServoResult) -> Iterator[Reason]:
    """Iterate over what commands cannot tell."""
    yield Reason(
        text='no efforts were recorded: masses are those of the robot file, and efforts are '
        'right only up to an error of the gains',
        rules_out=(PREDICTION, CONTROL, COLLISIONS),
        short='no efforts were recorded',
    )


def rollout(result: ServoResult) -> Iterator[Reason]:
    """Iterate over errors of unseen motion, by the motion and by those of the robot file."""
    errors, nominal = result.errors[result.filed], result.errors['nominal']
    share, joints = errors / np.maximum(result.motion, 1e-9), result.robot.joints
    bad = [j for j, s in zip(joints, share, strict=True) if s > LARGE_SHARE]
    if bad:
        yield Reason(
            text=f'rollouts miss up to {100 * share.max():.3g} % of the motion at '
            f'{", ".join(bad[:NAMED_JOINTS])}',
            rules_out=(SIMULATION,),
            joints=tuple(bad),
            value=100 * float(share.max()),
            threshold=100 * LARGE_SHARE,
            unit='%',
            next_step='check robot.servo (gains, limit) and try friction: coulomb_by_position or '
            'gains: scale',
            key='robot.servo',
        )
    if result.total_error(result.filed) > result.total_error('nominal'):
        error = 1e3 * result.total_error(result.filed)
        yield Reason(
            text=f'rollouts miss unseen motion by {error:.3g} mrad, those of '
            f'the robot file by {1e3 * result.total_error("nominal"):.3g}',
            rules_out=(SIMULATION,),
            next_step='record a longer motion with fast and slow parts',
            key='data.identification',
        )
    anew = total(result.anew)
    if result.total_error() > STARTED_ANEW * anew:
        yield Reason(
            text=f'rollouts over whole motions miss {1e3 * result.total_error():.3g} mrad, those '
            f'that begin anew at {result.starts} places {1e3 * anew:.3g}: the former is judged',
            remark=True,
        )
    worse = [j for j, a, b in zip(joints, errors, nominal, strict=True) if a > WORSE * b]
    if worse and not bad:
        named = ', '.join(worse[:NAMED_JOINTS])
        text = f'worse than the robot file on unseen motion: {named}'
        yield Reason(text=text, joints=tuple(worse), remark=True)


def method(result: ServoResult) -> Iterator[Reason]:
    """Iterate over what least squares in place of rollouts mean."""
    if result.method == ROLLOUT:
        return
    text = f'least squares on the efforts of the servos, simulated at {step_in_words(result)}'
    if result.simulator.named:
        yield Reason(
            text=text,
            next_step='leave estimation.method out: parameters are fitted to simulated motion '
            'then',
            key='estimation.method',
            remark=True,
        )
    else:
        yield Reason(
            text=f'no simulator was named: {text}',
            next_step='name a simulator (simulation.timestep, simulation.integrator) for '
            'parameters that belong to it',
            key='simulation.timestep',
            remark=True,
        )


def bounds(result: ServoResult) -> Iterator[Reason]:
    """Iterate over parameters at their bounds."""
    names = result.fit.free.names
    edges = [name for name, at in zip(names, result.fit.at_bound, strict=True) if at]
    if edges:
        text = f'at their bounds: {", ".join(edges[:NAMED_PARAMETERS])}'
        more = len(edges) - NAMED_PARAMETERS
        yield Reason(text=text + (f' and {more} more' if more > 0 else ''), remark=True)


def correlation(result: ServoResult) -> Iterator[Reason]:
    """Iterate over parameters that the recordings hardly tell apart."""
    pairs = result.correlated()
    if pairs:
        first, second, value = pairs[0]
        others = f' (other pairs above {CORRELATED:g}: {len(pairs) - 1})' if pairs[1:] else ''
        yield Reason(
            text=f'{first} and {second} are correlated by {value:+.2f}{others}: their sum or '
            'ratio is known better than each',
            remark=True,
        )


def servo_delay(result: ServoResult) -> Iterator[Reason]:
    """Iterate over delays that cannot be, and over what is confused with a delay."""
    early = [
        f'the delay of {joints} is {1e3 * delay:.3g} +- {1e3 * std:.2g} ms'
        for joints, delay, std in result.delays()
        if delay < -EARLY_STDS * std
    ]
    if early:
        yield Reason(
            text=f'{"; ".join(early)}: they act before their stamps',
            next_step='stamp commands when they are sent, by the clock of the positions',
            key='data.identification',
            remark=True,
        )
    # a motion that is early by a time has so much more of kp as viscous friction, and of kd and
    # viscous friction as armature
    fit, model, parameters = result.fit, result.fit.model, result.parameters
    std = fit.std[fit.free.places['delay']]
    kp, kd = model.stiffness * parameters.stiffness, model.damping * parameters.damping
    shares = {}
    for kind, change in (('viscous', kp), ('armature', kd + parameters.viscous)):
        inside = ~fit.at_bound[fit.free.places[kind]]
        values = parameters.values(kind)[inside]
        shares[kind] = 100 * np.median((change * std)[inside] / values) if inside.any() else 0
    if max(shares.values()) > CONFUSED_SHARE:
        yield Reason(
            text=f'the delay is known to {1e3 * std.max():.2g} ms, which are '
            f'{shares["armature"]:.0f} % of the armature and {shares["viscous"]:.0f} % of the '
            'viscous friction (medians of the joints): only together are they known better',
            next_step='record faster motion: slow motion confuses delay, viscous friction, '
            'armature',
            key='data.identification',
            remark=True,
        )


def centers(result: ServoResult) -> Iterator[Reason]:
    """Iterate over centres of mass that are moved too far to be believed."""
    moved = float(np.abs(result.parameters.centers).max())
    share = moved / result.servo.center_of_mass_std
    if share > MOVED_STDS:
        yield Reason(
            text=f'centres of mass are moved by up to {1e3 * moved:.0f} mm, {share:.0f} times '
            'center_of_mass_std: masses or gains may be wrong',
            next_step='check kp and the masses of the robot file, or try gains: scale',
            key='robot.servo',
            remark=True,
        )


def servo_gains(result: ServoResult) -> Iterator[Reason]:
    """Iterate over gains that no velocity command determines."""
    if 'damping' not in result.fit.free.kinds and result.servo.gains == 'scale':
        text = 'no velocity is commanded: only the sum of kd and viscous friction is known'
        yield Reason(text=text, remark=True)


def friction(result: ServoResult) -> Iterator[Reason]:
    """Iterate over friction and play that simulators' files have no place for."""
    if 'slope' in result.fit.free.kinds:
        text = 'MJCF has no friction that depends on the position: a simulator has to set it'
        yield Reason(text=text, remark=True)
    joints = [result.robot.joints[j] for j in result.parameters.playing]
    if joints:
        text = f'play of {", ".join(joints)}: no file for simulators has a place for it'
        if 'without_play' in result.errors:
            text += f', and without it {1e3 * result.total_error("without_play"):.3g} mrad remain'
        yield Reason(text=text, joints=tuple(joints), remark=True)
