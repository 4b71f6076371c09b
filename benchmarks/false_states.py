# SPDX-License-Identifier: Apache-2.0
"""
True motion of a simulated arm while the joint states that the node gets are false.

    .venv/bin/python -m benchmarks.false_states [runs of each fault]

prints the worst of the runs of each fault, as in docs/explanation/motion.md.
"""

from __future__ import annotations

from collections.abc import Callable
import sys
from typing import Any

import numpy as np
from rclpy.logging import LoggingSeverity, set_logger_level
from robot_identification.nodes.common.messages import time_message
from sensor_msgs.msg import JointState

from .driven_arm import Arm, Fault, Outcome, SETTINGS, Spoiler

BEYOND = 1.05
"""Share of the limits that the true motion may reach."""


def changed(message: JointState, position: Any = None, stamp: float | None = None, **fields: Any):
    """Return a copy of a joint state with other values."""
    copy = JointState(
        name=fields.get('name', message.name),
        position=message.position if position is None else list(np.asarray(position, float)),
        velocity=fields.get('velocity', message.velocity),
        effort=fields.get('effort', message.effort),
    )
    copy.header.stamp = message.header.stamp
    if stamp is not None:
        own = message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec
        copy.header.stamp = time_message(max(round(1e9 * (own + stamp)), 0))
    return copy


def positions(change: Callable[[np.ndarray, Spoiler], Any]) -> Fault:
    """Return a fault that changes positions."""

    def fault(spoiler: Spoiler, message: JointState) -> list[tuple[JointState, int]]:
        return [(changed(message, change(np.array(message.position), spoiler)), 0)]

    return fault


def stamps(change: Callable[[Spoiler], float]) -> Fault:
    """Return a fault that shifts stamps [s]."""
    return lambda spoiler, message: [(changed(message, stamp=change(spoiler)), 0)]


def second(position: Callable[[np.ndarray, Spoiler], Any], every: int = 1) -> Fault:
    """Return the fault of a second publisher, which sends with each so many messages."""

    def fault(spoiler: Spoiler, message: JointState) -> list[tuple[JointState, int]]:
        if spoiler.count % every:
            return [(message, 0)]
        other = changed(message, position(np.array(message.position), spoiler), 1e-4)
        return [(message, 0), (other, 1)]

    return fault


def now_and_then(every: int, change: Callable[[np.ndarray], Any]) -> Fault:
    """Return a fault that changes one message in so many."""

    def fault(spoiler: Spoiler, message: JointState) -> list[tuple[JointState, int]]:
        if spoiler.count % every:
            return [(message, 0)]
        return [(changed(message, change(np.array(message.position))), 0)]

    return fault


def late(spoiler: Spoiler, message: JointState) -> list[tuple[JointState, int]]:
    """Return nothing for 0.4 s, then all at once."""
    spoiler.held.append(message)
    if spoiler.count % 100:
        return []
    messages, spoiler.held = [(each, 0) for each in spoiler.held], []
    return messages


def ever_later(spoiler: Spoiler, message: JointState) -> list[tuple[JointState, int]]:
    """Return messages that come ever later, as those of a relay whose queue grows by 40 %."""
    due = round(spoiler.count / 1.4)
    old = spoiler.history[len(spoiler.history) - spoiler.count + due - 1]
    return [] if due == round((spoiler.count - 1) / 1.4) else [(old, 0)]


def stuck(joint: int) -> Fault:
    """Return the fault of one joint's reading that stays as it is."""

    def change(q: np.ndarray, spoiler: Spoiler) -> np.ndarray:
        q[joint] = spoiler.first.position[joint]  # type: ignore[union-attr]
        return q

    return positions(change)


def delayed(spoiler: Spoiler, message: JointState) -> list[tuple[JointState, int]]:
    """Return the positions of half a second ago with the present's stamps."""
    old = spoiler.history[max(len(spoiler.history) - 126, 0)]
    return [(changed(message, old.position), 0)]


def backwards(spoiler: Spoiler, message: JointState) -> list[tuple[JointState, int]]:
    """Return the past backwards."""
    old = spoiler.history[max(len(spoiler.history) - 2 * spoiler.count, 0)]
    return [(changed(message, old.position), 0)]


FAULTS: dict[str, Fault] = {
    'a second publisher sends zeros': second(lambda q, s: 0.0 * q),
    'a second publisher sends zeros at 50 Hz': second(lambda q, s: 0.0 * q, 5),
    'a second publisher sends zeros at 10 Hz': second(lambda q, s: 0.0 * q, 25),
    'a second publisher sends the start': second(lambda q, s: s.first.position),
    'a second publisher sends anything': second(lambda q, s: s.random.uniform(-3, 3, q.size)),
    'positions freeze, stamps go on': positions(lambda q, s: s.first.position),
    'messages freeze': lambda s, m: [(s.first, 0)],
    '+0.15 rad': positions(lambda q, s: q + 0.15),
    '+0.15 rad at one joint': positions(lambda q, s: q + [0.15, 0.0, 0.0]),
    '+0.05 rad': positions(lambda q, s: q + 0.05),
    '+1 rad on every 7th message': now_and_then(7, lambda q: q + 1.0),
    '+1 rad on every 2nd message': now_and_then(2, lambda q: q + 1.0),
    '+1 rad on every 60th message': now_and_then(60, lambda q: q + 1.0),
    '+1 rad': positions(lambda q, s: q + 1.0),
    '-1 rad at one joint': positions(lambda q, s: q - [0.0, 1.0, 0.0]),
    '4.5 rad': positions(lambda q, s: 0.0 * q + 4.5),
    '1e9 rad': positions(lambda q, s: 0.0 * q + 1e9),
    'degrees for radians': positions(lambda q, s: np.rad2deg(q)),
    'signs change': positions(lambda q, s: -q),
    'half of the angles': positions(lambda q, s: 0.5 * q),
    'a drift of 0.2 rad/s': positions(lambda q, s: q + 0.2 * s.elapsed),
    'a drift of 1 rad/s': positions(lambda q, s: q + 1.0 * s.elapsed),
    'noise of 0.5 rad': positions(lambda q, s: q + s.random.uniform(-0.5, 0.5, q.size)),
    'noise of 0.01 rad': positions(lambda q, s: q + 0.01 * s.random.standard_normal(q.size)),
    "one joint's reading is stuck": stuck(1),
    "one joint's reading is mirrored": positions(lambda q, s: q * [1.0, -1.0, 1.0]),
    'positions of half a second ago': delayed,
    'states that come ever later': ever_later,
    'the past backwards': backwards,
    'names swapped without values': lambda s, m: [
        (changed(m, name=[m.name[1], m.name[0], *m.name[2:]]), 0)
    ],
    'names in reverse without values': lambda s, m: [(changed(m, name=m.name[::-1]), 0)],
    'stamps with +-0.3 s of jitter': stamps(lambda s: s.random.uniform(-0.3, 0.3)),
    'stamps with +-0.03 s of jitter': stamps(lambda s: s.random.uniform(-0.03, 0.03)),
    'stamps at half speed': stamps(lambda s: -0.5 * s.elapsed),
    'stamps that slide by 0.5 s': stamps(lambda s: -min(0.2 * s.elapsed, 0.5)),
    'stamps 0.3 s ahead': stamps(lambda s: 0.3),
    'stamps 0.3 s behind': stamps(lambda s: -0.3),
    'stamps 30 s ahead': stamps(lambda s: 30.0),
    'stamps 30 s behind': stamps(lambda s: -30.0),
    'stamps of 0': stamps(lambda s: -1e9),
    'NaN': positions(lambda q, s: q + np.nan),
    'silence': lambda s, m: [],
    'a joint is missing': lambda s, m: [
        (JointState(header=m.header, name=m.name[:2], position=m.position[:2]), 0)
    ],
    '0.4 s late, all at once': late,
    'velocities of 1000 rad/s': lambda s, m: [(changed(m, velocity=[1e3] * 3), 0)],
    'efforts of infinity': lambda s, m: [(changed(m, effort=[np.inf] * 3), 0)],
    'efforts of NaN': lambda s, m: [(changed(m, effort=[np.nan] * 3), 0)],
    'efforts of 1e6 N m': lambda s, m: [(changed(m, effort=[1e6] * 3), 0)],
}
"""Faults by what they are called."""


def worst(arm: Arm, fault: Fault, runs: int) -> Outcome:
    """Return the worst of several runs in which a fault begins at random instants."""
    instants = np.random.default_rng(7).uniform(-0.1, 0.95, runs)
    found = [arm.run(fault, when, seed) for seed, when in enumerate(instants)]
    return Outcome(
        max(each.velocity for each in found),
        max(each.acceleration for each in found),
        max(each.position for each in found),
        max(each.off_path for each in found),
        min(each.distance for each in found),
        ', '.join(sorted({each.code or 'NONE' for each in found})),
        all(each.at_rest for each in found),
    )


def within_bounds(outcome: Outcome) -> bool:
    """Return whether the arm kept its limits, to 5 %, and its clearance, to 1 mm, and rests."""
    return (
        outcome.velocity <= BEYOND * SETTINGS.velocity_limits[0]
        and outcome.acceleration <= BEYOND * SETTINGS.acceleration_limits[0]
        and outcome.position <= 0.0
        and outcome.distance >= SETTINGS.clearance - 1e-3
        and outcome.at_rest
    )


def main(runs: int = 20) -> int:
    """Print the worst of each fault; return 1 beyond the bound."""
    beyond = 0
    arm = Arm()
    set_logger_level('excitation', LoggingSeverity.ERROR)
    print(f'limits 3 rad/s, 12 rad/s2, clearance 10 mm, {runs} runs of each fault')
    print('| fault | rad/s | rad/s² | off the path [rad] | distance [mm] | ends with |')
    print('|---|---:|---:|---:|---:|---|')
    for name, fault in FAULTS.items():
        found = worst(arm, fault, runs)
        bad = not within_bounds(found)
        beyond += bad
        codes = ', '.join(f'`{code}`' for code in found.code.split(', '))
        mark = ' BEYOND THE BOUND' if bad else ''
        print(
            f'| {name} | {found.velocity:.2f} | {found.acceleration:.1f} | {found.off_path:.3f} | '
            f'{1e3 * found.distance:.1f} | {codes} |{mark}',
            flush=True,
        )
    print(f'{beyond} of {len(FAULTS)} beyond the bound')
    return int(beyond > 0)


if __name__ == '__main__':
    sys.exit(main(int((sys.argv[1:2] or ['20'])[0])))
