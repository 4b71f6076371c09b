# SPDX-License-Identifier: Apache-2.0
"""
Choice of signal processing and friction terms by cross-validation.

The recordings are cut into five contiguous stretches.  Parameters are fitted to four of them and
predict the fifth; the cost of a candidate is the mean over joints of the logarithm of the held-out
residual, plus `cross_validation.TERM_COST` for each term of a joint.  Taken is the simplest
candidate whose cost is within half a standard error (over the stretches, paired) of the best.  It
is the error of the whole robot that counts, of all rows and of those that surely move: what a term
explains is there in both.  Settings that are given are in force from the start.  From what
concerns the whole robot to single joints:

1. the cut-off frequency, the highest among equals and none that leaves fewer independent rows than
   parameters, and whether velocities are measured or differentiated;
2. the delay of all efforts, and the tilt of the base (gravity's direction, with a prior of one
   degree), where they save a twentieth;
3. each joint's dry friction near rest, by its breakaway displacement or reversal speed, and the
   dead zone below which rows are not fitted, but predicted;
4. friction by load and by the cube root of the speed, and whether there is a rotor inertia;
5. the tilt of the base, however small;
6. joints at which springs, cables or counterweights pull;
7. joints whose efforts are later or smoother than those of all;
8. at the end, what does not pay any more is left out, and the tilt is estimated anew.

The fit is weighted least squares, its weights iterated from the residuals of the joint fit, with a
weak pull towards the prior.

One file: the choices are steps of one search.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
import itertools
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from ..errors import IdentificationError
from ..model.friction import SELECTED
from ..model.robot import Robot
from ..progress import no_progress, Progress
from ..regressor import build, ModelSettings
from ..regressor.base_parameters import BaseStructure
from ..regressor.base_search import structure
from ..regressor.rigid import tree_of
from ..signals import RecordingSource, SignalSettings
from ..signals.decimation import thinned
from .cross_validation import (
    BANDWIDTHS,
    better,
    FoldedRows,
    FOLDS,
    LONGEST,
    relative_gain,
    simplest,
    standard_error,
    WORKING_RATE,
)

CUTOFFS = (3.0, 5.0, 8.0, 10.0, 15.0, 25.0)
"""Cut-off frequencies that are compared [Hz]."""

DELAYS = (0.0, 0.01, 0.02, 0.03, 0.045, 0.06, 0.08, 0.1, 0.12)
"""Delays of the effort that are compared [s]."""

LOW_PASSES = (0.0, 8.0, 4.0, 2.0, 1.0)
"""Low-pass filters of the effort that are compared [Hz]; 0 for none."""

BREAKAWAYS = (0.002, 0.005, 0.01, 0.02, 0.05)
"""Breakaway displacements that are compared [rad]."""

REVERSALS = (0.0, 0.005, 0.02)
"""Reversal speeds that are compared [rad/s]; 0 for the sign of the velocity."""

DEAD_ZONES = (0.0, 0.02, 0.05, 0.1)
"""Dead zones that are compared [rad/s]."""

USUAL = 0.02
"""Dead zone that is taken where no other is clearly better [rad/s]."""

LEVER = 0.25
"""Metres of a joint that slides that a radian is compared with [m]."""

SAME_TRIM = 0.05
"""Time that all comparisons leave out at the ends of stretches [s]."""

LARGE = 0.05
"""Logarithm of the residual that delay and tilt have to save to be taken before friction."""

DECISIVE = 0.1
"""Logarithm of the residual that reversal speeds have to save: they forget static friction."""

LEAST_TILT = np.radians(0.05)
"""Tilt that no spirit level shows, and that is left out [rad]."""

LEAST_SPRING_GAIN = 0.1
"""Logarithm of a joint's residual that a spring at it has to save."""

SURE = 2.0
"""Standard errors by which rotors left out, springs and single joints' channels have to pay."""

THINNED_RATE = 2000.0
"""Rate that recordings are reduced to, at least, before settings are compared [Hz]."""

_AHEAD = 0.02
"""Time beyond which longer delays are not tried where all shorter ones are worse [s]."""

_ROUNDS = 2
_EFFORT_ROWS = ('dead_zone', 'effort_delay', 'effort_low_pass')
_REVERSAL = 'robot.reversal_speed'


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
        found['robot.reversal_speed'] = self.model.reversal_speed
        found['robot.joint_springs'] = self.model.joint_springs
        if self.tilt.any():
            found['robot.base_tilt'] = tuple(self.tilt.tolist())
        return found

    def with_spring(self, joint: str, joints: Sequence[str]) -> ModelSelection:
        """Return the choice with a spring at one more joint, of those in order."""
        chosen = {*self.model.joint_springs, joint}
        springs = tuple(each for each in joints if each in chosen)
        reference = 'against none, and the links near their prior'
        choice = Choice('robot.joint_springs', springs, 0.0, reference)
        model = replace(self.model, joint_springs=springs)
        return replace(self, model=model, choices=(*self.choices, choice))

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
    progress: Progress = no_progress,
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
    search.choose_delay()
    search.choose_tilt(LARGE)
    search.choose_reversals()
    search.choose_terms()
    search.choose_tilt()
    search.choose_springs()
    search.choose_channels()
    search.drop_terms()
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
        usual = SignalSettings()
        open_keys = [key for key in _EFFORT_ROWS if f'signals.{key}' not in self.given]
        self.signals = replace(self.signals, **{key: getattr(usual, key) for key in open_keys})
        self.nominal, self.tilt = self.robot, np.zeros(3)
        self.units = np.where(tree_of(self.robot).revolute, 1.0, LEVER)
        self.zone = self._by_joint('dead_zone')
        self.rate = WORKING_RATE
        # the same rows for all cut-off frequencies
        self.trim = SAME_TRIM if self.signals.trim is None else self.signals.trim
        self.choices: list[Choice] = []
        self._rows: FoldedRows | None = None
        self._structures: dict[object, BaseStructure] = {}

    def _by_joint(self, key: str) -> np.ndarray:
        return np.broadcast_to(getattr(self.signals, key), self.robot.n_joints).astype(float)

    @property
    def rows(self) -> FoldedRows:
        """Rows with the present settings."""
        if self._rows is None:
            self._rows = self._read()
        return self._rows

    def _read(
        self,
        model: ModelSettings | None = None,
        signals: SignalSettings | None = None,
        robot: Robot | None = None,
    ) -> FoldedRows:
        """Read the recordings with settings in place of the present ones."""
        model, signals = model or self.model, signals or self.signals
        robot = robot or self.robot
        neutral = replace(signals, decimate_to=self.rate, trim=self.trim)
        neutral = replace(neutral, dead_zone=0.0, effort_delay=0.0, effort_low_pass=0.0)
        regressor = build(robot, model)
        # columns of the same names are the same functions of the motion
        key = robot.gravity.tobytes(), regressor.layout.names
        if key not in self._structures:
            self._structures[key] = structure(regressor, robot, grouping=model.grouping)
        base, moving = self._structures[key], DEAD_ZONES[-1] * self.units
        rows = FoldedRows.of(
            self.sources, regressor, base, robot, model, neutral, moving, self.zone
        )
        channel = (signals.effort_delay, signals.effort_low_pass)
        return rows.through(*(np.broadcast_to(value, robot.n_joints) for value in channel))

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
                rows = self._read(signals=signals)
            except IdentificationError as error:
                failure = failure or error
                continue
            # velocities' noise may pay where joints move for sure: all rows alone count
            found.append((rows.cost()[0], signals, rows))
        if not found:
            assert failure is not None
            raise failure
        # where every filter leaves too few, the fit says so
        found = [one for one in found if one[2].determined(one[1].cutoff)] or found
        # among equals the highest cut-off frequency: it distorts fast motions least
        kept = None if self.present is None else (self.present.method, self.present.cutoff)
        found.sort(key=lambda one: ((one[1].method, one[1].cutoff) != kept, -one[1].cutoff))
        best = found[simplest(np.array([candidate[0].mean(axis=1) for candidate in found]))]
        if len(pairs) > 1:
            was, (cost, self.signals, _) = self.signals, best
            default = min(
                found,
                key=lambda one: (one[1].method != was.method, abs(one[1].cutoff - was.cutoff)),
            )
            gain = relative_gain(cost, default[0])
            reference = f'against {default[1].method} at {default[1].cutoff:g} Hz'
            for key in ('method', 'cutoff'):
                if f'signals.{key}' not in self.given:
                    self._note(f'signals.{key}', getattr(self.signals, key), gain, reference)
        # what the motion's filter leaves out tells nothing
        self.rate = min(WORKING_RATE, BANDWIDTHS * self.signals.cutoff)
        self._rows = best[2] if self.rate == WORKING_RATE else None

    def choose_delay(self) -> None:
        """Choose how late the efforts of all joints are."""
        if 'signals.effort_delay' in self.given:
            return
        self.progress(0.6, 'choosing the delay of the efforts')
        plain, none = self.rows, np.zeros(self.robot.n_joints)
        costs = {0.0: plain.cost()}

        def cost(delay: float) -> float:
            if delay not in costs:
                costs[delay] = plain.through(none + delay, none).cost()
            return float(costs[delay].mean())

        best = 0.0
        for delay in DELAYS:  # what is late is better half-way, too
            if cost(delay) < cost(best):
                best = delay
            elif delay > 2.0 * best + _AHEAD:
                break
        for step in (0.005, 0.0025) if best else ():
            best = min((d for d in (best - step, best, best + step) if d >= 0.0), key=cost)
        if best and better(costs[best], costs[0.0], 1.0 / none.size, LARGE):
            self.signals = replace(self.signals, effort_delay=best)
            self._rows = plain.through(none + best, none)
            gain = relative_gain(costs[best], costs[0.0])
            self._note('signals.effort_delay', best, gain, 'against none')

    def choose_reversals(self) -> None:
        """Choose each joint's dry friction near rest, and the rows that are left out there."""
        dry = 'robot.breakaway' not in self.given and 'coulomb' in self.model.friction
        slow, slope = (key not in self.given for key in ('signals.dead_zone', _REVERSAL))
        self.progress(0.63, 'choosing the dry friction')
        plain, base, n = self.rows, self.rows.fit(), self.robot.n_joints
        zones = [self.zone]
        if slow:
            zones = [plain.admissible(zone * self.units) for zone in DEAD_ZONES]
        near_rest = [(0.0, speed) for speed in (REVERSALS if slope else (0.0,))]
        near_rest += [(breakaway, 0.0) for breakaway in (BREAKAWAYS if dry else ())]
        costs = []
        for each in near_rest:
            rows = self._read(self._near_rest(*np.multiply.outer(each, self.units)))
            costs += [replace(rows, zone=zone).own_costs(base) for zone in zones]
        table = np.array(costs)  # (c, folds, n)
        # in doubt slow rows are left out: that costs nothing, and a wrong sign of friction does
        usual = plain.admissible(USUAL * self.units)
        if self.present is not None:
            usual = np.broadcast_to(self.present.dead_zone, n)
        candidates = list(itertools.product(near_rest, zones))
        kinds, zone = np.zeros((2, n)), np.zeros(n)

        def zone_of(candidate: int, joint: int) -> float:
            return float(candidates[candidate][1][joint])

        for j in range(n):
            extra = [float(np.count_nonzero(kind)) for kind, _ in candidates]
            order = sorted(
                range(len(candidates)), key=lambda i: (extra[i], zone_of(i, j) != usual[j])
            )
            best = order[simplest(table[order, :, j], [extra[i] for i in order])]
            kinds[:, j], zone[j] = candidates[best][0], zone_of(best, j)
        before, self.zone = plain.cost(), zone
        self._rows = replace(plain, zone=zone)
        if slow and zone.any():
            value = tuple(zone.tolist())
            self.signals = replace(self.signals, dead_zone=value)
            gain = relative_gain(self.rows.cost(), before)
            self._note('signals.dead_zone', value, gain, 'against none')
        text = 'against the sign of the velocity'
        for key, place, least in ((_REVERSAL, 1, DECISIVE), ('robot.breakaway', 0, 0.0)):
            if kinds[place].any():
                only = np.zeros((2, n))
                only[place] = kinds[place] * self.units
                terms = np.count_nonzero(only) / n
                self._offer(key, self._near_rest(*only), text, terms, least, both=False)

    def _near_rest(self, breakaway: np.ndarray, reversal: np.ndarray) -> ModelSettings:
        """Return the present model with dry friction near rest that is not zero throughout."""
        model = self.model
        if breakaway.any():
            model = replace(model, breakaway=tuple(breakaway.tolist()))
        if reversal.any():
            model = replace(model, reversal_speed=tuple(reversal.tolist()))
        return model

    def choose_terms(self) -> None:
        """Choose load-dependent friction and rotor inertia."""
        self.progress(0.68, 'choosing the terms of the model')
        if 'robot.friction' not in self.given and 'coulomb' in self.model.friction:
            for term in SELECTED:
                richer = replace(self.model, friction=(*self.model.friction, term))
                self._offer('robot.friction', richer, f"against friction without '{term}'")
        if 'robot.rotor_inertia' not in self.given and self.model.rotor_inertia:
            poorer = replace(self.model, rotor_inertia=False)
            rows, text = self._read(poorer), 'against one of every joint'
            found, usual = rows.cost(), self.rows.cost()
            gain = relative_gain(found, usual)
            if better(found, usual, 0.0, sure=SURE):
                self._take(poorer, rows)
                self._note('robot.rotor_inertia', False, gain, text)
            elif better(found, usual, 0.0):
                self._undecided('robot.rotor_inertia', True, -gain, 'against none')

    def choose_springs(self) -> None:
        """Choose the joints at which springs pull."""
        if 'robot.joint_springs' in self.given:
            return
        self.progress(0.72, 'choosing the joints with springs')
        plain = self.rows
        joints = np.array(self.robot.joints)
        turning = joints[list(tree_of(self.robot).revolute)].tolist()
        sprung = self._read(replace(self.model, joint_springs=tuple(turning)))
        difference = (sprung.cost() - plain.cost()).mean(axis=0).T  # (driven, folds)
        needed = [max(standard_error(each), LEAST_SPRING_GAIN) for each in difference]
        chosen = tuple(joints[plain.driven][difference.mean(axis=1) < -np.array(needed)].tolist())
        if chosen:
            springs = tuple(joint for joint in turning if joint in chosen)
            model = replace(self.model, joint_springs=springs)
            terms = 2.0 * len(chosen) / plain.n_joints
            self._offer('robot.joint_springs', model, 'against none', terms, sure=SURE)

    def choose_channels(self) -> None:
        """Choose joints whose efforts come later or smoother than those of all."""
        keys = ('effort_delay', 'effort_low_pass')
        free = [f'signals.{key}' not in self.given for key in keys]
        if not any(free):
            return
        n, present = self.robot.n_joints, np.array([self._by_joint(key) for key in keys])
        raw = self.rows
        if present.any():
            raw = self._read(signals=replace(self.signals, effort_delay=0.0, effort_low_pass=0.0))
        all_late = float(present[0, 0])
        delays = sorted({*DELAYS, all_late}) if free[0] else [all_late]
        pairs = list(itertools.product(delays, LOW_PASSES if free[1] else (0.0,)))
        channels = [
            np.where(np.array(free)[:, None], np.array(pair)[:, None], present) for pair in pairs
        ]
        candidates = []
        for i, channel in enumerate(channels):
            self.progress(0.75 + 0.15 * i / len(pairs), 'choosing the channels of the efforts')
            candidates.append(raw.through(*channel))
        before = self.rows.cost()
        found, cost, chosen, count = self.rows, before, present, 0.0
        # one joint that is late may look like a delay of all: the search starts with and without
        for late in {all_late, 0.0} if free[0] else {all_late}:
            extra = [float((delay != late) + (smooth != 0.0)) for delay, smooth in pairs]
            # what is first wins where others are not clearly better
            order = sorted(range(len(pairs)), key=lambda i: extra[i])
            terms = [extra[i] for i in order]
            base = candidates[order[0]].fit()
            for _ in range(_ROUNDS):
                costs = np.array([candidates[i].own_costs(base) for i in order])  # (c, folds, n)
                best = [order[simplest(costs[:, :, joint], terms)] for joint in range(n)]
                values = np.stack([channels[b][:, j] for j, b in enumerate(best)], axis=1)
                rows = raw.through(*values)
                base = rows.fit()
            of_all = np.count_nonzero(values != present) / n
            if better(rows.cost(), before, of_all) and rows.cost().mean() < cost.mean():
                found, cost, chosen, count = rows, rows.cost(), values, of_all
        if found is self.rows:
            return
        if not better(cost, before, count, sure=SURE):
            gain, text = relative_gain(before, cost), 'against one of single joints'
            for key, was, asked in zip(keys, present, free, strict=True):
                if asked and not np.array_equal(chosen[keys.index(key)], was):
                    self._undecided(f'signals.{key}', float(was[0]), gain, text)
            return
        self._rows = found
        for key, values, was in zip(keys, chosen, present, strict=True):
            if not np.array_equal(values, was):
                value: Any = tuple(np.round(values, 4).tolist())
                self.signals = replace(self.signals, **{key: value})
                self.choices = [each for each in self.choices if each.key != f'signals.{key}']
                reference = 'against the same channel for all'
                self._note(f'signals.{key}', value, relative_gain(cost, before), reference)

    def drop_terms(self) -> None:
        """Leave out what does not pay any more beside what was chosen later."""
        self.progress(0.9, 'leaving out what does not pay')
        n, model, text = self.robot.n_joints, self.model, 'against what does not pay'
        chosen = {choice.key for choice in self.choices}
        for term in SELECTED if 'robot.friction' in chosen else ():
            if term in self.model.friction:
                friction = tuple(each for each in self.model.friction if each != term)
                self._drop('robot.friction', replace(self.model, friction=friction), text)
        for joint in model.joint_springs if 'robot.joint_springs' in chosen else ():
            springs = tuple(each for each in self.model.joint_springs if each != joint)
            poorer = replace(self.model, joint_springs=springs)
            self._drop('robot.joint_springs', poorer, text, 2.0 / n)
        if 'robot.breakaway' in chosen:
            poorer, terms = replace(self.model, breakaway=0.0), np.count_nonzero(model.breakaway)
            self._drop('robot.breakaway', poorer, text, terms / n, both=False)
        if _REVERSAL in chosen:
            terms = np.count_nonzero(model.reversal_speed)
            poorer = replace(self.model, reversal_speed=0.0)
            self._drop(_REVERSAL, poorer, text, terms / n, both=False)

    def choose_tilt(self, least: float = 0.0) -> None:
        """Estimate the tilt of the base, anew where it is known from a poorer model."""
        size = float(np.linalg.norm(self.nominal.gravity))
        if 'robot.base_tilt' in self.given or size == 0.0:
            return
        self.progress(0.62, 'estimating the tilt of the base')
        down = self.nominal.gravity / size
        axes = np.linalg.svd(down[None])[2][1:]  # two directions across gravity
        if self.tilt.any():
            self.robot, self.tilt, self._rows = self.nominal, np.zeros(3), None
            self.choices = [choice for choice in self.choices if choice.key != 'robot.base_tilt']
        directions = [size * axis for axis in axes]
        tilted = self.rows.with_gravity(self.robot, self.model, directions)
        plain, found = self.rows.cost(), tilted.cost()
        if not better(found, plain, 2.0 / self.robot.n_joints, least):
            return
        # gravity plus x along the axes is gravity turned by the vector product
        values = tilted.fit()[-2:]
        # the columns are those of the fit with the gravity before: once more with the one found
        turned = self.robot.with_gravity((size * (down + values @ axes)).tolist())
        rows = self._read(robot=turned)
        values = values + rows.with_gravity(turned, self.model, directions).fit()[-2:]
        if np.linalg.norm(values) < LEAST_TILT:
            return
        self.tilt = np.cross(down, values @ axes)
        gravity = Rotation.from_rotvec(self.tilt).apply(self.nominal.gravity)
        self.robot, self._rows = self.nominal.with_gravity(gravity.tolist()), None
        text = 'against the gravity that is given'
        self._note('robot.base_tilt', tuple(self.tilt.tolist()), relative_gain(found, plain), text)

    def choose_decimation(self) -> None:
        """Let the rows keep what the motion's filter keeps."""
        if 'signals.decimate_to' not in self.given:
            self.signals = replace(self.signals, decimate_to=BANDWIDTHS * self.signals.cutoff)

    def _offer(
        self,
        key: str,
        model: ModelSettings,
        reference: str,
        terms: float = 1.0,
        least: float = 0.0,
        both: bool = True,
        sure: float = 0.5,
    ) -> None:
        """Take a richer model, with so many terms more a joint, where it predicts better."""
        rows = self._read(model)
        plain, rich = self.rows.cost(), rows.cost()
        if better(rich, plain, terms, least, both, sure):
            self._take(model, rows)
            value = getattr(model, key.partition('.')[2])
            self._note(key, value, relative_gain(rich, plain), reference)

    def _drop(
        self, key: str, model: ModelSettings, reference: str, terms: float = 1.0, both: bool = True
    ) -> None:
        """Take a poorer model, with so many terms less a joint, unless it predicts worse."""
        rows = self._read(model)
        rich, poor = self.rows.cost(), rows.cost()
        if better(rich, poor, terms, both=both):
            return
        self._take(model, rows)
        self.choices = [choice for choice in self.choices if choice.key != key]
        value, usual = (getattr(m, key.partition('.')[2]) for m in (model, ModelSettings()))
        if value != usual:
            self._note(key, value, relative_gain(poor, rich), reference)

    def _take(self, model: ModelSettings, rows: FoldedRows | None = None) -> None:
        self.model, self._rows = model, rows

    def _undecided(self, key: str, value: object, gain: float, reference: str) -> None:
        """Tell that the usual is kept where the stretches do not decide."""
        self._note(key, value, gain, f'{reference}: not decided by {FOLDS} stretches, and kept')

    def _note(self, key: str, value: object, gain: float, reference: str) -> None:
        self.choices.append(Choice(key, value, gain, reference))
