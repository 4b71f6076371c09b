# SPDX-License-Identifier: Apache-2.0
"""
Choice of signal processing and friction terms by cross-validation.

The recordings are cut into five contiguous stretches.  Parameters are fitted to four of them and
predict the fifth; the cost of a candidate is the mean over joints of the logarithm of the held-out
residual, plus `ComparisonConstants.term` for each term of a joint.  It is the error of the whole
robot that counts, of all rows and of those that surely move: what a term explains is there in
both.  A term of all joints is taken where it pays by half a standard error (over the stretches,
paired), one of single joints by two, and both stay where they pay at the end, too; else the usual
stands.  Settings that are given are in force from the start.  From what concerns the whole robot
to single joints:

1. the cut-off frequency, the highest within a standard error of the best and none that leaves
   fewer independent rows than parameters, and whether velocities are measured or differentiated;
2. the delay of all efforts, and the tilt of the base (gravity's direction, with a prior of one
   degree), where they save a twentieth;
3. the dead zone below which rows are not fitted, but predicted, where it leaves half of a
   joint's rows, and each joint's breakaway displacement;
4. friction by load and by the cube root of the speed;
5. the tilt of the base, however small;
6. joints at which springs, cables or counterweights pull;
7. joints whose efforts are later or smoother than those of all;
8. at the end, what does not pay any more is left out, and the tilt is estimated again.

The fit is weighted least squares, its weights iterated from the residuals of the joint fit, with a
weak pull towards the prior.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
import itertools
from typing import Any

import numpy as np

from ..errors import IdentificationError
from ..model.friction import SELECTED
from ..model.robot import Robot, tilted_gravity
from ..regressor import build, ModelSettings, Regressor
from ..regressor.base_parameters import BaseStructure
from ..regressor.base_search import structure
from ..regressor.kinds import RobotKind
from ..regressor.rigid import tree_of
from ..signals import RecordingSource, SignalSettings
from ..signals.decimation import thinned
from ..support.progress import no_progress, Progress
from .cross_validation import (
    better,
    COMPARISON,
    FoldedRows,
    picked_by_joint,
    relative_gain,
    simplest,
    standard_error,
)


@dataclass(frozen=True)
class SearchConstants:
    """Constants of the search for settings."""

    methods: tuple[str, ...] = ('butterworth', 'measured_velocity')
    """Ways to a velocity that are compared."""
    cutoffs: tuple[float, ...] = (3.0, 5.0, 8.0, 10.0, 15.0, 25.0)
    """Cut-off frequencies that are compared [Hz]."""
    delays: tuple[float, ...] = (0.0, 0.01, 0.02, 0.03, 0.045, 0.06, 0.08, 0.1, 0.12)
    """Delays of the effort that are compared [s]."""
    low_passes: tuple[float, ...] = (0.0, 8.0, 4.0, 2.0)
    """Low-pass filters of the effort that are compared [Hz]; 0 for none."""
    breakaways: tuple[float, ...] = (0.002, 0.005, 0.01, 0.02, 0.05)
    """Breakaway displacements that are compared [rad]."""
    least_back: float = 0.05
    """Share of a joint's moving rows in each direction that reversals are seen with."""
    dead_zone: float = 0.02
    """Dead zone that is taken where it leaves half of a joint's rows [rad/s]."""
    moving: float = 0.1
    """Speed above which a joint moves for sure [rad/s]."""
    lever: float = 0.25
    """Metres of a joint that slides that a radian is compared with [m]."""
    trim: float = 0.05
    """Time that all comparisons leave out at the ends of stretches [s]."""
    large: float = 0.05
    """Logarithm of the residual that delay and tilt have to save to be taken before friction."""
    tilt_rounds: int = 8
    """Steps in which the tilt is found, at most."""
    least_tilt: float = np.radians(0.05)
    """Tilt that no spirit level shows, and that is left out [rad]."""
    least_spring_gain: float = 0.1
    """Logarithm of a joint's residual that a spring at it has to save."""
    oversampling: float = 16.0
    """Rate that recordings keep at least while settings are compared, by the cut-off frequency."""
    longest: float = 600.0
    """Time that is looked at of each recording [s]."""


SEARCH = SearchConstants()

_CHANNEL = ('effort_delay', 'effort_low_pass')
_NONE = 'against none'
_KEPT = f'not decided by {COMPARISON.folds} stretches, and kept'
_LISTS = ('friction', 'joint_springs')
_EFFORT_ROWS = ('dead_zone', *_CHANNEL)


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
    structure:
        Base parameters of the model; None where they were not needed for the choice.

    """

    model: ModelSettings
    signals: SignalSettings
    tilt: np.ndarray
    choices: tuple[Choice, ...] = ()
    structure: BaseStructure | None = None

    def settings(self) -> dict[str, Any]:
        """Return all settings that can be chosen, by their keys, so that a run can be repeated."""
        filters = ('method', 'cutoff', 'decimate_to', *_EFFORT_ROWS)
        terms = ('friction', 'rotor_inertia', 'breakaway', 'joint_springs')
        found = {f'signals.{key}': getattr(self.signals, key) for key in filters}
        found.update({f'robot.{key}': getattr(self.model, key) for key in terms})
        if self.tilt.any():
            found['robot.base_tilt'] = tuple(self.tilt.tolist())
        return found

    def with_springs(self, more: Collection[str], joints: Sequence[str]) -> ModelSelection:
        """Return the choice with springs at more joints, of those in order."""
        chosen = {*self.model.joint_springs, *more}
        springs = tuple(each for each in joints if each in chosen)
        reference = 'against none, and the links near their prior'
        choice = Choice('robot.joint_springs', springs, 0.0, reference)
        model = replace(self.model, joint_springs=springs)
        return replace(self, model=model, choices=(*self.choices, choice), structure=None)

    def summary(self) -> str:
        """Return the choices, one a line."""
        if not self.choices:
            return 'Chosen from the recordings: the default settings'
        return '\n'.join(['Chosen from the recordings:', *(f'  {c}' for c in self.choices)])


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return '[' + ', '.join(_shown(item) for item in value) + ']'
    return f'{value:.4g}' if isinstance(value, float) else str(value)


def can_choose(kind: RobotKind, signals: SignalSettings, given: Collection[str]) -> bool:
    """Return whether settings can be chosen for a kind of robot and signals at all."""
    filtered = 'signals.method' not in given or signals.method in SEARCH.methods
    return kind.stiff_tree and filtered


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
        Called with the share that is done, and what is being done.

    Raises
    ------
    IdentificationError
        where a recording cannot be used with any candidate.

    """
    rate = SEARCH.oversampling * max(signals.cutoff, *SEARCH.cutoffs)
    kept = tuple(thinned(source, rate, SEARCH.longest) for source in sources)
    search = _SettingsSearch(kept, robot, model, signals, frozenset(given), present, progress)
    search.choose_filter()
    search.choose_delay()
    search.choose_tilt(SEARCH.large)
    search.choose_breakaway()
    search.choose_terms()
    search.choose_tilt()
    search.choose_springs()
    search.choose_channels()
    if search.drop_terms():  # they may have made up for a channel
        search.choose_channels()
    search.choose_tilt()
    search.choose_decimation()
    return ModelSelection(
        search.model, search.signals, search.tilt, tuple(search.choices), search.structure()
    )


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
        self.units = np.where(tree_of(self.robot).revolute, 1.0, SEARCH.lever)
        self.zone = self._by_joint('dead_zone')
        self.rate = COMPARISON.rate
        # the same rows for all cut-off frequencies
        self.trim = SEARCH.trim if self.signals.trim is None else self.signals.trim
        self.common_delay = 0.0  # efforts of all joints [s]
        self.choices: list[Choice] = []
        # key, entry of a list or none, terms a joint, whether it has to pay where joints move, too
        self.taken: list[tuple[str, str, float, bool]] = []
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
        all_rows: dict[str, Any] = dict.fromkeys(_EFFORT_ROWS, 0.0)
        neutral = replace(signals, decimate_to=self.rate, trim=self.trim, **all_rows)
        regressor = build(robot, model)
        key = _structure_key(robot, regressor)
        if key not in self._structures:
            self._structures[key] = structure(regressor, robot, grouping=model.grouping)
        base, moving = self._structures[key], SEARCH.moving * self.units
        rows = FoldedRows.from_recordings(
            self.sources, regressor, base, robot, model, neutral, moving, self.zone
        )
        channel = (np.broadcast_to(getattr(signals, key), robot.n_joints) for key in _CHANNEL)
        return rows.filtered_by_channel(*channel)

    def structure(self) -> BaseStructure | None:
        """Return the base parameters with the present settings, if they were found."""
        return self._structures.get(_structure_key(self.robot, build(self.robot, self.model)))

    def choose_filter(self) -> None:
        """Choose cut-off frequency and source of the velocity."""
        cutoffs = SEARCH.cutoffs if 'signals.cutoff' not in self.given else (self.signals.cutoff,)
        methods = SEARCH.methods if 'signals.method' not in self.given else (self.signals.method,)
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
        costs = np.array([candidate[0].mean(axis=1) for candidate in found])
        best = found[simplest(costs, stds=COMPARISON.alike)]
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
        self.rate = min(COMPARISON.rate, COMPARISON.bandwidths * self.signals.cutoff)
        self._rows = best[2] if self.rate == COMPARISON.rate else None

    def choose_delay(self) -> None:
        """Choose how late the efforts of all joints are."""
        if 'signals.effort_delay' in self.given:
            return
        self.progress(0.6, 'choosing the delay of the efforts')
        plain, none = self.rows, np.zeros(self.robot.n_joints)

        @cache
        def cost(delay: float) -> np.ndarray:
            return plain.filtered_by_channel(none + delay, none).cost()

        def mean(delay: float) -> float:
            return float(cost(delay).mean())

        best = min(SEARCH.delays, key=mean)
        for step in (0.005, 0.0025) if best else ():
            best = min((best - step, best, best + step), key=mean)
        if best and better(cost(best), cost(0.0), 1.0 / none.size, SEARCH.large):
            self.signals = replace(self.signals, effort_delay=best)
            self._rows = plain.filtered_by_channel(none + best, none)
            gain = relative_gain(cost(best), cost(0.0))
            self._note('signals.effort_delay', best, gain, _NONE)
            self.common_delay = best

    def choose_breakaway(self) -> None:
        """Leave rows near rest out of the fits, and choose each joint's breakaway displacement."""
        self.progress(0.63, 'choosing the dry friction')
        plain, n = self.rows, self.robot.n_joints
        if 'signals.dead_zone' not in self.given:
            # slow rows are left out: that costs little, and a wrong sign of friction more
            usual = self.present.dead_zone if self.present else SEARCH.dead_zone * self.units
            self.zone = plain.admissible(np.broadcast_to(usual, n))
        self._rows = replace(plain, zone=self.zone)
        if 'signals.dead_zone' not in self.given and self.zone.any():
            self.signals = replace(self.signals, dead_zone=tuple(self.zone.tolist()))
            gain = relative_gain(self.rows.cost(), plain.cost())
            self._note('signals.dead_zone', self.signals.dead_zone, gain, _NONE)
        if 'robot.breakaway' in self.given or 'coulomb' not in self.model.friction:
            return
        rows = self.rows, *(self._read(self._with_breakaway(each)) for each in SEARCH.breakaways)
        found = np.array([0.0, *SEARCH.breakaways])[picked_by_joint(rows, both=False)[1]]
        found = np.where(self.rows.reversing(SEARCH.least_back), found, 0.0)
        if found.any():
            text, terms_each = 'against the sign of the velocity', np.count_nonzero(found) / n
            self._offer(
                'robot.breakaway', self._with_breakaway(found), text, terms_each, both=False
            )

    def _with_breakaway(self, angles: np.ndarray | float) -> ModelSettings:
        """Return the present model with breakaway displacements at the joints [rad]."""
        return replace(self.model, breakaway=tuple((angles * self.units).tolist()))

    def choose_terms(self) -> None:
        """Choose further terms of friction."""
        self.progress(0.68, 'choosing the terms of the model')
        if 'robot.friction' not in self.given and 'coulomb' in self.model.friction:
            for term in SELECTED:
                richer = replace(self.model, friction=(*self.model.friction, term))
                self._offer('robot.friction', richer, f"against friction without '{term}'")

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
        needed = np.maximum(standard_error(difference), SEARCH.least_spring_gain)
        chosen = joints[plain.driven][difference.mean(axis=1) < -needed].tolist()
        springs = tuple(joint for joint in turning if joint in chosen)
        if springs:
            model = replace(self.model, joint_springs=springs)
            terms = 2.0 * len(springs) / plain.n_joints
            self._offer('robot.joint_springs', model, _NONE, terms, stds=COMPARISON.required_stds)

    def choose_channels(self) -> None:
        """Choose joints whose efforts come later or smoother than those of all."""
        free = np.array([[f'signals.{key}' not in self.given] for key in _CHANNEL])
        if not free.any():
            return
        self.progress(0.75, 'choosing the channels of the efforts')
        present = np.array([self._by_joint(key) for key in _CHANNEL])
        neutral = replace(self.signals, effort_delay=0.0, effort_low_pass=0.0)
        raw = self._read(signals=neutral) if present.any() else self.rows
        # near rest, sticking is smoother than the velocity's sign: it is fitted beyond
        raw = replace(raw, zone=raw.moving)
        common = np.where(free, [[self.common_delay], [0.0]], present)
        # one joint that is late may look like a delay of all: the search starts with and without
        starts = [np.where(free, [[delay], [0.0]], common) for delay in {self.common_delay, 0.0}]
        plain = raw.filtered_by_channel(*common).cost()
        cost, terms, chosen = min(
            (_channels(raw, start, free) for start in starts),
            key=lambda found: found[0].mean() + COMPARISON.term * found[1],
        )
        taken, gain = (
            better(cost, plain, terms, stds=COMPARISON.required_stds),
            relative_gain(cost, plain),
        )
        for key, values, was, asked in zip(_CHANNEL, chosen, common, free[:, 0], strict=True):
            if not asked:
                continue
            name, changed = f'signals.{key}', not np.array_equal(values, was)
            of_all = () if changed and taken else (_NONE,)
            self.choices = [c for c in self.choices if c.key != name or c.reference in of_all]
            value: Any = float(was[0])
            if changed and taken:
                value = tuple(np.round(values, 4).tolist())
                self._note(name, value, gain, 'against the same channel for all')
            elif changed and better(cost, plain, terms):
                gain = relative_gain(plain, cost)
                self._note(name, value, gain, f'against one of single joints: {_KEPT}')
            if not np.array_equal(self._by_joint(key), value):
                self.signals, self._rows = replace(self.signals, **{key: value}), None

    def drop_terms(self) -> bool:
        """Leave out what does not pay any more beside what was chosen later; tell of any."""
        self.progress(0.9, 'leaving out what does not pay')
        model = self.model
        for key, part, terms, both in self.taken:
            name = key.partition('.')[2]
            value: Any = _without(getattr(self.model, name), part) if part else 0.0
            poorer = replace(self.model, **{name: value})
            rows, rich = self._read(poorer), self.rows.cost()
            if better(rich, rows.cost(), terms, both=both):
                continue
            self.model, self._rows = poorer, rows
            self.choices = [choice for choice in self.choices if choice.key != key]
            if value != getattr(ModelSettings(), name):
                gain = relative_gain(rows.cost(), rich)
                self._note(key, value, gain, 'against what does not pay')
        return self.model is not model

    def choose_tilt(self, least: float = 0.0) -> None:
        """Estimate the tilt of the base, again where it is known from a poorer model."""
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
        values = tilted.fit()[-2:]  # gravity turned by the vector product with them, if small
        # columns are those of the fit with the gravity before; mountings are level to a degree, or
        # not at all: the further a tilt is from that, the less it is drawn to level
        for _ in range(SEARCH.tilt_rounds):
            tilt = np.cross(down, values @ axes)
            gravity = tilted_gravity(self.nominal.gravity.tolist(), tilt.tolist())
            turned = self.nominal.with_gravity(gravity)
            std = max(COMPARISON.tilt_std, float(values @ values) / COMPARISON.tilt_std)
            rows = self._read(robot=turned)
            rows = rows.with_gravity(turned, self.model, directions, -values, std)
            step = rows.fit()[-2:]
            if np.linalg.norm(step) < SEARCH.least_tilt:
                break
            values = values + step
        if np.linalg.norm(values) < SEARCH.least_tilt:
            return
        self.tilt, self.robot, self._rows = tilt, turned, None
        text = 'against the gravity that is given'
        self._note('robot.base_tilt', tuple(self.tilt.tolist()), relative_gain(found, plain), text)

    def choose_decimation(self) -> None:
        """Let the rows keep what the motion's filter keeps."""
        if 'signals.decimate_to' not in self.given:
            rate = COMPARISON.bandwidths * self.signals.cutoff
            self.signals = replace(self.signals, decimate_to=rate)

    def _offer(
        self,
        key: str,
        model: ModelSettings,
        reference: str,
        terms: float = 1.0,
        both: bool = True,
        stds: float = COMPARISON.hint,
    ) -> None:
        """Take another model, with so many terms more a joint, where it predicts better."""
        rows, name = self._read(model), key.partition('.')[2]
        plain, rich = self.rows.cost(), rows.cost()
        was, value = getattr(self.model, name), getattr(model, name)
        if better(rich, plain, terms, both=both, stds=stds):
            parts = _without(value, *was) if name in _LISTS else ('',)
            if terms:
                self.taken += [(key, part, terms / len(parts), both) for part in parts]
            self.model, self._rows = model, rows
            self._note(key, value, relative_gain(rich, plain), reference)
        elif better(rich, plain, terms, both=both):
            gain = relative_gain(plain, rich)
            self._note(key, was, gain, f'against {_shown(value)}: {_KEPT}')

    def _note(self, key: str, value: object, gain: float, reference: str) -> None:
        self.choices.append(Choice(key, value, gain, reference))


def _structure_key(robot: Robot, regressor: Regressor) -> tuple[bytes, tuple[str, ...]]:
    """Return what is the same for equal base parameters: columns of one name are one function."""
    return robot.gravity.tobytes(), regressor.layout.names


def _without(values: tuple[str, ...], *others: str) -> tuple[str, ...]:
    return tuple(value for value in values if value not in others)


def _channels(
    raw: FoldedRows, start: np.ndarray, free: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray]:
    """
    Return the best cost, its terms a joint, and the (2, n) delays and low-passes behind it.

    Each joint has the channel of the start, or another delay or low-pass where that is free.
    """
    channels = [start]
    for place, values in enumerate((SEARCH.delays, SEARCH.low_passes)):
        row = np.arange(2)[:, None] == place
        others = [value for value in values if value != start[place, 0]]
        channels += [np.where(row, value, start) for value in others if free[place]]
    cost, picked = picked_by_joint([raw.filtered_by_channel(*channel) for channel in channels])
    chosen = np.array([channels[i][:, j] for j, i in enumerate(picked)]).T
    return cost, float(np.mean(picked != 0)), chosen
