# SPDX-License-Identifier: Apache-2.0
"""
Comparisons of an identification with a simulated robot's truth, and with recorded motions.

`replay` plays recorded efforts to the identified robot and reports how far it moves from what was
recorded.  Inverse dynamics is what an identification fits; this is forward dynamics.  Without
control, any model leaves the recording in time, so the robot is put back onto the recorded motion
after every horizon.  What MuJoCo has no element for is left out, but for offsets, which are taken
off the efforts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from ..data.recording import RecordingSource, Samples, source_name
from ..errors import importing, ModelError, RecordingError
from ..estimation.tables import number, rule
from ..exports.mjcf_export import mjcf
from ..model.mimic_joints import MimicJoints
from ..model.mujoco_model import stiffen
from ..model.parameters import body_links, ParameterSet
from ..regressor import build
from ..regressor.base_search import structure
from ..regressor.kinds import kind_of
from ..results.result import Result
from ..results.stored_result import StoredResult
from ..signals import SignalSettings, stretches

with importing('mujoco'):
    import mujoco
    from mujoco import rollout

SIGNIFICANT = 5.0
"""A parameter is significant where its relative standard deviation is below this [%]."""

BAND = 1.96
"""Half the width of a 95 % interval [standard deviations]."""

LONGEST_STEP = 1e-3
"""Longest step of the simulation [s]."""

_PIECE = 4096  # samples that are played at once, for the sake of memory


@dataclass(frozen=True)
class TruthComparison:
    """
    Identified base parameters (b,) against the true ones.

    ``std`` is NaN where the recording does not determine the parameter.
    """

    expressions: tuple[str, ...]
    true: np.ndarray
    identified: np.ndarray
    std: np.ndarray

    @property
    def relative_std(self) -> np.ndarray:
        """(b,) 100 std / |identified| [%]."""
        with np.errstate(divide='ignore'):
            return 100.0 * self.std / np.abs(self.identified)

    @property
    def deviation(self) -> np.ndarray:
        """(b,) distance from the true value in standard deviations."""
        with np.errstate(divide='ignore', invalid='ignore'):
            return np.abs(self.identified - self.true) / self.std

    @property
    def significant(self) -> np.ndarray:
        """(b,) bool, true where the parameter is well determined."""
        return self.relative_std < SIGNIFICANT

    @property
    def outside(self) -> np.ndarray:
        """(b,) bool, parameters whose 95 % interval does not contain the true value."""
        return np.isfinite(self.deviation) & (self.deviation > BAND)

    def table(self, width: int = 46) -> str:
        """Return the table as text; ``*`` marks what is significant, ``!`` what is off."""
        lines = [
            f'    {"base parameter":{width}} {"true":>11} {"identified":>11} {"std":>9} '
            f'{"%std":>7} {"off by":>8}'
        ]
        for i, expression in enumerate(self.expressions):
            mark = '!' if self.outside[i] else '*' if self.significant[i] else ' '
            known = np.isfinite(self.std[i])
            spread = f'{self.std[i]:9.2g} {self.relative_std[i]:7.1f}' if known else f'{"-":>17}'
            off = f'{self.deviation[i]:4.1f} std' if known else ''
            lines.append(
                f'  {mark} {_short(expression, width):{width}} {self.true[i]:11.5f} '
                f'{self.identified[i]:11.5f} {spread} {off:>8}'
            )
        return '\n'.join(lines)


def compare(result: StoredResult, truth: Mapping[str, float]) -> TruthComparison:
    """Compare a result with true standard parameters by name; those not named are 0."""
    base = structure(
        build(result.robot, result.settings.model),
        result.robot,
        grouping=result.settings.model.grouping,
    )
    values = np.array([truth.get(name, 0.0) for name in base.layout.names])
    standard = ParameterSet(base.layout, values)
    return TruthComparison(
        expressions=result.expressions,
        true=base.project(standard).values,
        identified=result.base.values,
        std=result.base_std,
    )


@dataclass(frozen=True)
class MassComparison:
    """Identified masses of links (n,) against the true ones [kg]; ``std`` NaN where kept."""

    links: tuple[str, ...]
    prior: np.ndarray
    true: np.ndarray
    identified: np.ndarray
    std: np.ndarray

    @property
    def known(self) -> np.ndarray:
        """(n,) bool, links whose mass the motion shows; that of others is the prior's."""
        return np.isfinite(self.std)

    @property
    def within(self) -> np.ndarray:
        """(n,) bool, links whose 95 % interval contains the true mass."""
        return np.asarray(np.abs(self.identified - self.true) <= BAND * self.std)

    def table(self) -> str:
        """
        Return the table as text.

        ``!`` marks intervals that do not contain the true mass, ``-`` masses that are the prior's.
        """
        lines = [
            f'    {"link":14} {"URDF kg":>10} {"true kg":>10} {"identified":>11} {"std":>9}'
            f'   {"95 % interval":^21}'
        ]
        rows = zip(self.links, self.prior, self.true, self.identified, self.std, self.within)
        for link, nominal, true, mass, std, within in rows:
            start = f'{_short(link, 14):14} {nominal:10.3f} {true:10.3f} {mass:11.3f}'
            if np.isnan(std):
                lines.append(f'  - {start}')
                continue
            interval = f'{mass - BAND * std:8.3f} to {mass + BAND * std:8.3f}'
            lines.append(f'  {" " if within else "!"} {start} {std:9.3f}   {interval:^21}')
        return '\n'.join(lines)


def compare_masses(result: StoredResult, truth: Mapping[str, float]) -> MassComparison:
    """Compare the masses of links of a result with the true standard parameters by name."""
    links = body_links(result.standard.layout)
    names = [f'{link}.m' for link in links]
    places = result.standard.layout.indices(names)
    return MassComparison(
        links=links,
        prior=result.prior.values[places],
        true=np.array([truth[name] for name in names]),
        identified=result.standard.values[places],
        std=result.standard_std[places],
    )


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else f'{text[: width - 3]}...'


@dataclass(frozen=True)
class Replay:
    """
    Root mean square distances from the recorded motion at the end of the horizon [s].

    (n_joints,) each [rad or m], over all ``windows`` of that length: ``moved`` of a robot that
    stays where it is, ``before`` of the robot by its prior, ``after`` as identified.
    """

    joints: tuple[str, ...]
    horizon: float
    windows: int
    moved: np.ndarray
    before: np.ndarray
    after: np.ndarray

    def summary(self) -> str:
        """Return a table for people."""
        width = max(map(len, ('joint', *self.joints)))
        heads = ('recorded way', 'before', 'after')
        lines = [
            rule(f'Error of the position after {self.horizon:g} s by efforts alone [rad or m]'),
            f'{"joint":<{width}}' + ''.join(f'{head:>14}' for head in heads),
        ]
        for joint, *values in zip(self.joints, self.moved, self.before, self.after, strict=True):
            cells = ''.join(f'{number(value):>14}' for value in values)
            lines.append(f'{joint:<{width}}{cells}')
        return '\n'.join([*lines, f'root mean squares of {self.windows} starts'])


def replay(
    result: Result | StoredResult,
    sources: Sequence[RecordingSource],
    *,
    signals: SignalSettings | None = None,
    horizon: float = 0.5,
) -> Replay:
    """
    Play recorded efforts to the robot before and after its identification.

    Parameters
    ----------
    result:
        The identification.
    sources:
        Recordings with the robot's joints.
    signals:
        How positions and velocities are filtered; None takes the result's own settings.
    horizon:
        Time after which the robot is put back onto the recorded motion [s].

    Raises
    ------
    ModelError
        if the robot has closed loops or elastic joints, or MuJoCo refuses it.
    ConsistencyError
        if an inertia is physically inconsistent.
    RecordingError
        if no recording is as long as the horizon.

    """
    kind = kind_of(result.robot, result.settings.model)
    if not kind.stiff_tree:
        raise ModelError(
            f"efforts are not played to robot '{result.robot.name}', which has {kind.text}",
            remedy='compare efforts by robot-identification validate',
        )
    robots = [_Robot.from_result(result, values) for values in (result.prior, result.standard)]
    squares, windows = np.zeros((3, result.robot.n_joints)), 0
    for source in sources:
        for samples in stretches(source, signals or result.settings.signals):
            steps = round(horizon * _rate(samples)) if len(samples) > 1 else 0
            size = max(1, _PIECE // max(1, steps)) * steps
            for start in range(0, len(samples) - steps if steps else 0, size):
                piece = samples.rows(start, start + size + 1)
                starts = np.arange(0, len(piece) - steps, steps)
                reached = piece.position[starts + steps]
                ends = [piece.position[starts], *(r.play(piece, starts, steps) for r in robots)]
                squares += np.square(np.array(ends) - reached).sum(axis=1)
                windows += len(starts)
    if not windows:
        name = source_name(sources[0]) if sources else 'recordings'
        raise RecordingError(
            f'{name}: no stretch is longer than the horizon of {horizon:g} s',
            file=name,
            value=horizon,
            remedy='give a shorter horizon',
        )
    moved, before, after = np.sqrt(squares / windows)
    return Replay(result.robot.joints, horizon, windows, moved, before, after)


def _rate(samples: Samples) -> float:
    return float(1.0 / (samples.time[1] - samples.time[0]))


@dataclass(frozen=True)
class _Robot:
    """
    A robot in MuJoCo, where its joints are in the state, and (n_joints,) its offsets.

    Joints that mimic others are among those in the state, after the others.
    """

    model: mujoco.MjModel
    places: np.ndarray
    offset: np.ndarray
    mimics: MimicJoints

    @classmethod
    def from_result(cls, result: Result | StoredResult, parameters: ParameterSet) -> _Robot:
        robot = result.robot
        offsets = {f'{joint}.off': parameters.get(f'{joint}.off') for joint in robot.joints}
        without = parameters.updated({n: 0.0 for n in offsets if n in parameters.layout})
        model = mujoco.MjModel.from_xml_string(mjcf(robot, without, result.settings.model))
        # recorded efforts are what they are
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CLAMPCTRL
        places = np.array([model.joint(joint).qposadr[0] for joint in robot.carriers.joints])
        if robot.mimics.followed:
            stiffen(model)
        return cls(model, places, np.array(list(offsets.values())), robot.mimics)

    def play(self, samples: Samples, starts: np.ndarray, steps: int) -> np.ndarray:
        """Return the positions (n_starts, n_joints) after a number of samples."""
        period = 1.0 / _rate(samples)
        substeps = ceil(period / LONGEST_STEP - 1e-9)
        self.model.opt.timestep = period / substeps
        state = np.zeros((len(starts), 1 + 2 * self.model.nv))  # time, positions, velocities
        state[:, 1 + self.places] = self.mimics.positions(samples.position[starts])
        speeds = self.mimics.rates(samples.velocity[starts])
        state[:, 1 + self.model.nq + self.places] = speeds
        efforts = samples.measured_effort - self.offset
        # held from sample to sample as the mean of both ends
        held = 0.5 * (efforts[:-1] + efforts[1:])
        rows = starts[:, None] + np.arange(steps)
        control = np.repeat(held[rows], substeps, axis=1)
        states, _ = rollout.rollout(self.model, mujoco.MjData(self.model), state, control)
        return np.asarray(states[:, -1, 1 + self.places[: samples.position.shape[1]]])
