# SPDX-License-Identifier: Apache-2.0
"""
Choice of signal processing and friction terms by cross-validation.

The recordings are cut into five contiguous stretches.  Parameters are fitted to four of them and
predict the fifth; the cost of a candidate is the mean over joints of the logarithm of the held-out
residual, plus `cross_validation.TERM_COST` for each term of a joint.  Taken is the simplest
candidate whose cost is within half a standard error (over the stretches, paired) of the best.
Settings that are given are kept.  In this order:

1. the cut-off frequency, the highest among equals and none that leaves fewer independent rows than
   parameters, and whether velocities are measured or differentiated;
2. each joint's breakaway displacement of dry friction;
3. the dead zone: rows below it are neither fitted nor predicted in the choices that follow, since
   the sign of the velocity, and with it dry friction, is unknown there;
4. friction by load and by the cube root of the speed, and whether there is a rotor inertia;
5. joints at which springs, cables or counterweights pull;
6. each joint's effort channel: delay and low-pass filter;
7. the tilt of the base: gravity's direction, with a prior of one degree.

The fit is weighted least squares, its weights iterated from the residuals of the joint fit, with a
weak pull towards the prior.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
import itertools
from typing import Any

import numpy as np

from ..base_parameters import BaseStructure, structure
from ..errors import IdentificationError
from ..model.robot import Robot
from ..progress import Progress, silent
from ..regressor import build, ModelSettings
from ..regressor.rigid import tree_of
from ..signals import RecordingSource, SignalSettings
from ..signals.decimation import thinned
from .cross_validation import (
    better,
    FoldedRows,
    LONGEST,
    relative_gain,
    simplest,
    standard_error,
    WORKING_RATE,
)

CUTOFFS = (3.0, 5.0, 8.0, 10.0, 15.0, 25.0)
"""Cut-off frequencies that are compared [Hz]."""

DELAYS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.045, 0.06, 0.09, 0.12)
"""Delays of the effort that are compared [s]."""

LOW_PASSES = (0.0, 8.0, 4.0, 2.0, 1.0)
"""Low-pass filters of the effort that are compared [Hz]; 0 for none."""

BREAKAWAYS = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05)
"""Breakaway displacements that are compared [rad or m]; 0 for the sign of the velocity."""

DEAD_ZONES = (0.0, 0.02, 0.05, 0.1)
"""Dead zones that are compared [rad/s or m/s]."""

LEAST_TILT = np.radians(0.05)
"""Tilt that no spirit level shows, and that is left out [rad]."""

LEAST_SPRING_GAIN = 0.03
"""Logarithm of a joint's residual that a spring at it has to save."""

THINNED_RATE = 2000.0
"""Rate that recordings are reduced to, at least, before settings are compared [Hz]."""

_ROUNDS = 2


@dataclass(frozen=True)
class Choice:
    """
    A setting that was chosen.

    Attributes
    ----------
    key:
        Of the experiment file.
    value:
        What was taken.
    gain:
        Change of the held-out residual against the candidate that is named in ``reference`` [%];
        negative is better.
    reference:
        What it is compared with, in words.

    """

    key: str
    value: object
    gain: float
    reference: str

    def __str__(self) -> str:
        """Return the choice on one line."""
        return f'{self.key}: {_shown(self.value)} (residual {self.gain:+.1f} % {self.reference})'


@dataclass(frozen=True)
class ModelSelection:
    """
    Settings chosen for recordings.

    Attributes
    ----------
    model, signals:
        With the choices filled in.
    tilt:
        (3,) rotation vector of the base against `Robot.gravity`, perpendicular to it [rad].
    choices:
        What was chosen, in the order of the choices.

    """

    model: ModelSettings
    signals: SignalSettings
    tilt: np.ndarray
    choices: tuple[Choice, ...] = ()

    def settings(self) -> dict[str, Any]:
        """Return all settings that can be chosen, by their keys, so that a run can be repeated."""
        filters = ('method', 'cutoff', 'decimate_to', 'dead_zone')
        keys = (*filters, 'effort_delay', 'effort_low_pass')
        found = {f'signals.{key}': getattr(self.signals, key) for key in keys}
        found['robot.friction'] = self.model.friction
        found['robot.rotor_inertia'] = self.model.rotor_inertia
        found['robot.breakaway'] = self.model.breakaway
        found['robot.joint_springs'] = self.model.joint_springs
        if self.tilt.any():
            found['robot.base_tilt'] = tuple(self.tilt.tolist())
        return found

    def summary(self) -> str:
        """Return the choices, one a line."""
        if not self.choices:
            return 'Chosen from the recordings: the default settings'
        return '\n'.join(['Chosen from the recordings:', *(f'  {c}' for c in self.choices)])

    def to_list(self) -> list[dict[str, Any]]:
        """Return the choices as mappings."""
        return [asdict(choice) for choice in self.choices]


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return '[' + ', '.join(_shown(item) for item in value) + ']'
    return f'{value:.4g}' if isinstance(value, float) else str(value)


def can_choose(model: ModelSettings, signals: SignalSettings, given: Collection[str]) -> bool:
    """Return whether settings can be chosen for a model and signals at all."""
    mechanism = model.elastic is not None or model.delta is not None or bool(model.loops)
    windows = 'signals.method' in given and signals.method in (
        'polynomial_approximation',
        'savitzky_golay',
    )
    return not mechanism and not windows


def choose_model(
    sources: Sequence[RecordingSource],
    robot: Robot,
    model: ModelSettings,
    signals: SignalSettings,
    given: Collection[str],
    *,
    present: SignalSettings | None = None,
    progress: Progress = silent,
) -> ModelSelection:
    """
    Choose the settings that are not given.

    Parameters
    ----------
    sources:
        The identification recordings.
    robot:
        The robot.
    model, signals:
        Settings; those of the keys in ``given`` are kept.
    given:
        Keys of the experiment file, for example ``signals.cutoff`` or ``robot.friction``.
    present:
        Chosen from fewer recordings: among equals, this filter and dead zone are kept.
    progress:
        Told about the progress.

    Raises
    ------
    IdentificationError
        where a recording cannot be used with any candidate.

    """
    kept = tuple(thinned(source, THINNED_RATE, LONGEST) for source in sources)
    search = _SettingsSearch(kept, robot, model, signals, frozenset(given), present, progress)
    search.choose_filter()
    search.choose_breakaway()
    search.choose_dead_zone()
    search.choose_terms()
    search.choose_springs()
    search.choose_channels()
    search.choose_tilt()
    search.choose_decimation()
    return ModelSelection(search.model, search.signals, search.tilt, tuple(search.choices))


@dataclass
class _SettingsSearch:
    """Settings as far as they are chosen, and the rows for them."""

    sources: Sequence[RecordingSource]
    robot: Robot
    model: ModelSettings
    signals: SignalSettings
    given: frozenset[str]
    present: SignalSettings | None
    progress: Progress

    def __post_init__(self) -> None:
        self.tilt = np.zeros(3)
        self.zone = np.zeros(self.robot.n_joints)
        self.choices: list[Choice] = []
        self._rows: FoldedRows | None = None
        self._structures: dict[object, BaseStructure] = {}

    @property
    def rows(self) -> FoldedRows:
        """Rows with the present settings."""
        if self._rows is None:
            self._rows = self._read(self.model, self.signals)
        if self._rows.zone is not self.zone:
            self._rows = replace(self._rows, zone=self.zone)
        return self._rows

    def _read(
        self, model: ModelSettings, signals: SignalSettings, robot: Robot | None = None
    ) -> FoldedRows:
        neutral = replace(
            signals,
            decimate_to=WORKING_RATE,
            dead_zone=0.0,
            effort_delay=0.0,
            effort_low_pass=0.0,
        )
        robot = robot or self.robot
        regressor = build(robot, model)
        # columns of the same names are the same functions of the motion
        key = robot.gravity.tobytes(), regressor.layout.names
        if key not in self._structures:
            self._structures[key] = structure(regressor, robot, grouping=model.grouping)
        base = self._structures[key]
        return FoldedRows.of(self.sources, regressor, base, robot, model, neutral, self.zone)

    def choose_filter(self) -> None:
        """Choose cut-off frequency and source of the velocity."""
        cutoffs = CUTOFFS if 'signals.cutoff' not in self.given else (self.signals.cutoff,)
        methods: tuple[str, ...] = ('butterworth', 'measured_velocity')
        if 'signals.method' in self.given:
            methods = (self.signals.method,)
        found: list[tuple[np.ndarray, SignalSettings, FoldedRows]] = []
        failure: IdentificationError | None = None
        pairs = list(itertools.product(methods, cutoffs))
        for i, (method, cutoff) in enumerate(pairs):
            self.progress(0.6 * i / len(pairs), f'choosing the filter: {method}, {cutoff:g} Hz')
            signals = replace(self.signals, method=method, cutoff=cutoff)
            try:
                rows = self._read(self.model, signals)
            except IdentificationError as error:
                failure = failure or error
                continue
            found.append((rows.cost(), signals, rows))
        if not found:
            assert failure is not None
            raise failure
        # where every filter leaves too few, the fit says so
        found = [one for one in found if one[2].determined(one[1].cutoff)] or found
        # among equals the highest cut-off frequency: it distorts fast motions least
        kept = None if self.present is None else (self.present.method, self.present.cutoff)
        found.sort(key=lambda one: ((one[1].method, one[1].cutoff) != kept, -one[1].cutoff))
        best = found[simplest(np.array([candidate[0].mean(axis=1) for candidate in found]))]
        if len(pairs) == 1:
            self._rows = best[2]
            return
        was, (cost, self.signals, self._rows) = self.signals, best
        default = min(
            found, key=lambda one: (one[1].method != was.method, abs(one[1].cutoff - was.cutoff))
        )
        gain = relative_gain(cost, default[0])
        reference = f'against {default[1].method} at {default[1].cutoff:g} Hz'
        for key in ('method', 'cutoff'):
            if f'signals.{key}' not in self.given:
                self._note(f'signals.{key}', getattr(self.signals, key), gain, reference)

    def choose_breakaway(self) -> None:
        """Choose each joint's breakaway displacement."""
        if 'robot.breakaway' in self.given or 'coulomb' not in self.model.friction:
            return
        base = self.rows.fit()
        n = self.robot.n_joints
        candidates = []
        for i, breakaway in enumerate(BREAKAWAYS):
            self.progress(0.6 + 0.03 * i / len(BREAKAWAYS), 'choosing the dry friction')
            model = replace(self.model, breakaway=breakaway)
            candidates.append(self._read(model, self.signals).own_costs(base))
        costs = np.array(candidates)  # (c, folds, n)
        terms = [float(breakaway > 0.0) for breakaway in BREAKAWAYS]
        chosen = tuple(BREAKAWAYS[simplest(costs[:, :, joint], terms)] for joint in range(n))
        if any(chosen):
            model = replace(self.model, breakaway=chosen)
            terms_a_joint = np.count_nonzero(chosen) / n
            reference = 'against the sign of the velocity'
            self._try_model('robot.breakaway', model, reference, terms_a_joint)

    def choose_dead_zone(self) -> None:
        """Choose the speed below which rows are left out."""
        if 'signals.dead_zone' in self.given:
            self.zone = np.broadcast_to(self.signals.dead_zone, self.robot.n_joints)
            return
        self.progress(0.63, 'choosing the dead zone')
        costs = {zone: self.rows.cost(zone) for zone in DEAD_ZONES}
        in_force = self.present.dead_zone if self.present else DEAD_ZONES[0]
        zones = sorted(DEAD_ZONES, key=lambda zone: (zone != in_force, zone))
        best = zones[simplest(np.array([costs[zone].mean(axis=1) for zone in zones]))]
        if best:
            self.signals = replace(self.signals, dead_zone=best)
            self.zone = np.full(self.robot.n_joints, best)
            gain = relative_gain(costs[best], costs[0.0])
            self._note('signals.dead_zone', best, gain, 'against none')

    def choose_terms(self) -> None:
        """Choose load-dependent friction and rotor inertia."""
        self.progress(0.65, 'choosing the terms of the model')
        if 'robot.friction' not in self.given and 'coulomb' in self.model.friction:
            for term in ('load', 'root'):
                friction = (*self.model.friction, term)
                richer = replace(self.model, friction=friction)
                self._try_model('robot.friction', richer, f"against friction without '{term}'")
        if 'robot.rotor_inertia' not in self.given and self.model.rotor_inertia:
            without = replace(self.model, rotor_inertia=False)
            cost, rows = self.rows.cost(), self._read(without, self.signals)
            if not better(cost, rows.cost(), terms=1.0):
                gain = relative_gain(rows.cost(), cost)
                self.model, self._rows = without, rows
                self._note('robot.rotor_inertia', False, gain, 'against one of every joint')

    def _try_model(
        self, key: str, model: ModelSettings, reference: str, terms: float = 1.0
    ) -> None:
        """Take a richer model, with so many terms more a joint, where it predicts better."""
        rows = self._read(model, self.signals)
        plain, rich = self.rows.cost(), rows.cost()
        if better(rich, plain, terms):
            self.model, self._rows = model, rows
            value = getattr(model, key.partition('.')[2])
            self._note(key, value, relative_gain(rich, plain), reference)

    def choose_springs(self) -> None:
        """Choose the joints at which springs pull."""
        if 'robot.joint_springs' in self.given:
            return
        self.progress(0.68, 'choosing the joints with springs')
        plain = self.rows
        joints = np.array(self.robot.joints)
        turning = joints[list(tree_of(self.robot).revolute)].tolist()
        sprung = self._read(replace(self.model, joint_springs=tuple(turning)), self.signals)
        difference = (sprung.cost() - plain.cost()).T  # (driven, folds)
        needed = [max(0.5 * standard_error(each), LEAST_SPRING_GAIN) for each in difference]
        chosen = tuple(joints[plain.driven][difference.mean(axis=1) < -np.array(needed)].tolist())
        if chosen:
            springs = tuple(joint for joint in turning if joint in chosen)
            model = replace(self.model, joint_springs=springs)
            terms = 2.0 * len(chosen) / plain.n_joints
            self._try_model('robot.joint_springs', model, 'against none', terms)

    def choose_channels(self) -> None:
        """Choose each joint's delay and low-pass filter."""
        keys = ('effort_delay', 'effort_low_pass')
        free = np.array([f'signals.{key}' not in self.given for key in keys])
        rows, given = self.rows, self._channels()
        if not free.any():
            self._rows = rows.through(*given)
            return
        # by complexity: what is first wins where others are not clearly better
        tried = (DELAYS if free[0] else (0.0,), LOW_PASSES if free[1] else (0.0,))
        pairs = sorted(itertools.product(*tried), key=np.count_nonzero)
        terms = [float(np.count_nonzero(pair)) for pair in pairs]
        channels = [np.where(free[:, None], np.array(pair)[:, None], given) for pair in pairs]
        candidates = []
        for i, channel in enumerate(channels):
            self.progress(0.7 + 0.25 * i / len(pairs), 'choosing the channels of the efforts')
            candidates.append(rows.through(*channel))
        chosen = channels[0]
        for _ in range(_ROUNDS):
            base = rows.through(*chosen).fit()
            costs = np.array([each.own_costs(base) for each in candidates])  # (c, folds, n)
            best = [simplest(costs[:, :, joint], terms) for joint in range(rows.n_joints)]
            chosen = np.stack([channels[b][:, j] for j, b in enumerate(best)], axis=1)
        found, before = rows.through(*chosen), rows.cost()
        if not better(found.cost(), before, np.count_nonzero(chosen[free]) / rows.n_joints):
            return
        self._rows = found
        gain = relative_gain(found.cost(), before)
        for key, values in zip(np.array(keys)[free].tolist(), chosen[free], strict=True):
            if values.any():
                value: Any = tuple(values.tolist())
                self.signals = replace(self.signals, **{key: value})
                reference = 'against efforts without delay and filter'
                self._note(f'signals.{key}', value, gain, reference)

    def _channels(self) -> np.ndarray:
        """Return the delays and low-pass filters of the settings, (2, n)."""
        signals, n = self.signals, self.robot.n_joints
        values = (signals.effort_delay, signals.effort_low_pass)
        return np.array([np.broadcast_to(value, n) for value in values], dtype=float)

    def choose_tilt(self) -> None:
        """Estimate the tilt of the base."""
        size = float(np.linalg.norm(self.robot.gravity))
        if 'robot.base_tilt' in self.given or size == 0.0:
            return
        self.progress(0.95, 'estimating the tilt of the base')
        down = self.robot.gravity / size
        axes = np.linalg.svd(down[None])[2][1:]  # two directions across gravity
        rows = self.rows
        directions = [size * axis for axis in axes]
        tilted = rows.with_gravity(self.robot, self.model, directions)
        plain, found = rows.cost(), tilted.cost()
        if not better(found, plain, terms=2.0 / self.robot.n_joints):
            return
        # gravity plus x along the axes is gravity turned by the vector product
        values = tilted.fit()[-2:]
        # the columns are those of the fit with the gravity before: once more with the one found
        turned = self.robot.with_gravity((size * (down + values @ axes)).tolist())
        rows = self._read(self.model, self.signals, turned).through(*self._channels())
        values = values + rows.with_gravity(turned, self.model, directions).fit()[-2:]
        if np.linalg.norm(values) < LEAST_TILT:
            return
        self.tilt = np.cross(down, values @ axes)
        text = 'against the gravity that is given'
        self._note('robot.base_tilt', tuple(self.tilt.tolist()), relative_gain(found, plain), text)

    def choose_decimation(self) -> None:
        """Let the rows keep what the motion's filter keeps."""
        if 'signals.decimate_to' not in self.given:
            self.signals = replace(self.signals, decimate_to=2.5 * self.signals.cutoff)

    def _note(self, key: str, value: object, gain: float, reference: str) -> None:
        self.choices.append(Choice(key, value, gain, reference))
