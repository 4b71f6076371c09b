# SPDX-License-Identifier: Apache-2.0
"""
Choice of signal processing and friction terms by cross-validation.

The recordings are cut into five contiguous stretches.  Parameters are fitted to four of them and
predict the fifth; the cost of a candidate is the mean over joints of the logarithm of the held-out
residual.  Taken is the simplest candidate whose cost is within half a standard error (over the
stretches, paired) of the best.  Settings that are given are kept.  In this order:

1. the cut-off frequency, and whether velocities are measured or differentiated;
2. friction by load and by the cube root of the speed, and whether there is a rotor inertia;
3. each joint's breakaway displacement of dry friction;
4. each joint's effort channel: delay and low-pass filter;
5. the dead zone;
6. the tilt of the base: gravity's direction, with a prior of one degree.

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
from ..data.recording import Motion
from ..errors import IdentificationError
from ..model.robot import Robot
from ..progress import Progress, silent
from ..regressor import build, ModelSettings
from ..regressor import prior as urdf_prior
from ..regressor.pattern import RowPattern
from ..signals import channel_kernel, EffortChannel, RecordingSource, SignalSettings
from .rows import driven_rows, row_blocks

FOLDS = 5
"""Stretches that are held out in turn."""

CUTOFFS = (3.0, 5.0, 8.0, 10.0, 15.0, 25.0)
"""Cut-off frequencies that are compared [Hz]."""

WORKING_RATE = 50.0
"""Rate of the rows in all comparisons [Hz], so that all predict the same efforts."""

DELAYS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.045, 0.06, 0.09, 0.12)
"""Delays of the effort that are compared [s]."""

LOW_PASSES = (0.0, 8.0, 4.0, 2.0, 1.0)
"""Low-pass filters of the effort that are compared [Hz]; 0 for none."""

BREAKAWAYS = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05)
"""Breakaway displacements that are compared [rad or m]; 0 for the sign of the velocity."""

DEAD_ZONES = (0.0, 0.02, 0.05, 0.1)
"""Dead zones that are compared [rad/s or m/s]."""

TILT_STD = np.radians(1.0)
"""Standard deviation of the base's tilt before anything is measured [rad]."""

INDEPENDENT_RATE = 2.0
"""Rows that count as independent beside the model's error [1/s]."""

LONGEST = 600.0
"""Time that is looked at of each recording [s]."""

_LEAST = 1e-3  # share of the effort below which residuals are not compared
_PULL = 1e-5  # of the scaled normal matrix, towards the prior
_FRICTION = ('fv', 'fc', 'ts', 'tsc', 'off', 'fr', 'fl')
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
    progress:
        Told about the progress.

    Raises
    ------
    IdentificationError
        where a recording cannot be used with any candidate.

    """
    search = _Search(tuple(sources), robot, model, signals, frozenset(given), progress)
    search.choose_filter()
    search.choose_terms()
    search.choose_breakaway()
    search.choose_channels()
    search.choose_dead_zone()
    search.choose_tilt()
    search.choose_decimation()
    return ModelSelection(search.model, search.signals, search.tilt, tuple(search.choices))


class _Search:
    """Settings as far as they are chosen, and the rows for them."""

    def __init__(
        self,
        sources: tuple[RecordingSource, ...],
        robot: Robot,
        model: ModelSettings,
        signals: SignalSettings,
        given: frozenset[str],
        progress: Progress,
    ) -> None:
        self.sources, self.robot, self.model, self.given = sources, robot, model, given
        self.signals, self.progress = signals, progress
        self.tilt = np.zeros(3)
        self.choices: list[Choice] = []
        self._rows: _Rows | None = None

    @property
    def rows(self) -> _Rows:
        """Rows with the present settings."""
        if self._rows is None:
            self._rows = self._read(self.model, self.signals)
        return self._rows

    def _read(
        self, model: ModelSettings, signals: SignalSettings, robot: Robot | None = None
    ) -> _Rows:
        neutral = replace(
            signals,
            decimate_to=WORKING_RATE,
            dead_zone=0.0,
            effort_delay=0.0,
            effort_low_pass=0.0,
        )
        return _Rows.of(self.sources, robot or self.robot, model, neutral)

    def choose_filter(self) -> None:
        """Choose cut-off frequency and source of the velocity."""
        cutoffs = CUTOFFS if 'signals.cutoff' not in self.given else (self.signals.cutoff,)
        methods: tuple[str, ...] = ('butterworth', 'measured_velocity')
        if 'signals.method' in self.given:
            methods = (self.signals.method,)
        found: list[tuple[np.ndarray, SignalSettings, _Rows]] = []
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
        # the lower the cut-off frequency, the less is left to explain
        found.sort(key=lambda candidate: candidate[1].cutoff)
        best = found[_simplest(np.array([candidate[0].mean(axis=1) for candidate in found]))]
        if len(pairs) == 1:
            self._rows = best[2]
            return
        default = next(
            (c for c in found if c[1] == replace(self.signals, method=c[1].method)), found[-1]
        )
        cost, self.signals, self._rows = best
        gain = _gain(cost, default[0])
        reference = f'against {default[1].method} at {default[1].cutoff:g} Hz'
        if 'signals.method' not in self.given:
            self._note('signals.method', self.signals.method, gain, reference)
        if 'signals.cutoff' not in self.given:
            self._note('signals.cutoff', self.signals.cutoff, gain, reference)

    def choose_terms(self) -> None:
        """Choose load-dependent friction and rotor inertia."""
        self.progress(0.6, 'choosing the terms of the model')
        if 'robot.friction' not in self.given and 'coulomb' in self.model.friction:
            for term in ('load', 'root'):
                friction = (*self.model.friction, term)
                richer = replace(self.model, friction=friction)
                self._try_model('robot.friction', richer, f"against friction without '{term}'")
        if 'robot.rotor_inertia' not in self.given and self.model.rotor_inertia:
            without = replace(self.model, rotor_inertia=False)
            cost, rows = self.rows.cost(), self._read(without, self.signals)
            if not _better(cost, rows.cost()):
                gain = _gain(rows.cost(), cost)
                self.model, self._rows = without, rows
                self._note('robot.rotor_inertia', False, gain, 'against one of every joint')

    def _try_model(self, key: str, model: ModelSettings, reference: str) -> None:
        """Take a richer model where it predicts better."""
        rows = self._read(model, self.signals)
        plain, rich = self.rows.cost(), rows.cost()
        if _better(rich, plain):
            self.model, self._rows = model, rows
            self._note(key, getattr(model, key.partition('.')[2]), _gain(rich, plain), reference)

    def choose_breakaway(self) -> None:
        """Choose each joint's breakaway displacement."""
        if 'robot.breakaway' in self.given or 'coulomb' not in self.model.friction:
            return
        plain = self.rows
        base, before = plain.fit(), plain.cost()
        n = self.robot.n_joints
        candidates = []
        for i, breakaway in enumerate(BREAKAWAYS):
            self.progress(0.62 + 0.03 * i / len(BREAKAWAYS), 'choosing the dry friction')
            model = replace(self.model, breakaway=breakaway)
            candidates.append(self._read(model, self.signals).own_costs(base))
        costs = np.array(candidates)  # (c, folds, n)
        chosen = tuple(BREAKAWAYS[_simplest(costs[:, :, joint])] for joint in range(n))
        if not any(chosen):
            return
        model = replace(self.model, breakaway=chosen)
        rows = self._read(model, self.signals)
        if _better(rows.cost(), before):
            self.model, self._rows = model, rows
            gain = _gain(rows.cost(), before)
            self._note('robot.breakaway', chosen, gain, 'against the sign of the velocity')

    def choose_channels(self) -> None:
        """Choose each joint's delay and low-pass filter."""
        delays = DELAYS if 'signals.effort_delay' not in self.given else None
        passes = LOW_PASSES if 'signals.effort_low_pass' not in self.given else None
        rows = self.rows
        before = rows.cost()
        if delays is None and passes is None:
            self._rows = rows.through(*self._channels(rows))
            return
        given_delays, given_passes = self._channels(rows)
        # by complexity: what is first wins where others are not clearly better
        pairs = sorted(
            itertools.product(
                delays or (None,), passes or (None,)
            ),
            key=lambda pair: ((pair[0] or 0.0) > 0.0) + ((pair[1] or 0.0) > 0.0),
        )  # fmt: skip
        candidates = []
        for i, (delay, low_pass) in enumerate(pairs):
            self.progress(0.65 + 0.25 * i / len(pairs), 'choosing the channels of the efforts')
            channel = (
                given_delays if delay is None else np.full(rows.n_joints, delay),
                given_passes if low_pass is None else np.full(rows.n_joints, low_pass),
            )
            candidates.append((channel, rows.through(*channel)))
        chosen = tuple(values.copy() for values in candidates[0][0])
        for _ in range(_ROUNDS):
            fitted = rows.through(*chosen)
            base = fitted.fit()
            costs = np.array([c.own_costs(base) for _, c in candidates])  # (c, folds, n)
            for joint in range(rows.n_joints):
                best = _simplest(costs[:, :, joint])
                for values, candidate in zip(chosen, candidates[best][0], strict=True):
                    values[joint] = candidate[joint]
        found = rows.through(*chosen)
        if not _better(found.cost(), before):
            return
        self._rows = found
        gain = _gain(found.cost(), before)
        for key, values, wanted in zip(
            ('effort_delay', 'effort_low_pass'), chosen, (delays, passes), strict=True
        ):
            if wanted is not None and values.any():
                found_values: Any = {key: tuple(values.tolist())}
                self.signals = replace(self.signals, **found_values)
                reference = 'against efforts without delay and filter'
                self._note(f'signals.{key}', tuple(values.tolist()), gain, reference)

    def _channels(self, rows: _Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return the delays and low-pass filters of the settings, (n,) each."""
        shape = (rows.n_joints,)
        return (
            np.broadcast_to(np.asarray(self.signals.effort_delay, float), shape).copy(),
            np.broadcast_to(np.asarray(self.signals.effort_low_pass, float), shape).copy(),
        )

    def choose_dead_zone(self) -> None:
        """Choose the speed below which rows are left out."""
        if 'signals.dead_zone' in self.given:
            return
        self.progress(0.92, 'choosing the dead zone')
        costs = [self.rows.cost(zone) for zone in DEAD_ZONES]
        best = _simplest(np.array([cost.mean(axis=1, keepdims=True) for cost in costs])[..., 0])
        if best:
            self.signals = replace(self.signals, dead_zone=DEAD_ZONES[best])
            gain = _gain(costs[best], costs[0])
            self._note('signals.dead_zone', DEAD_ZONES[best], gain, 'against none')

    def choose_tilt(self) -> None:
        """Estimate the tilt of the base."""
        size = float(np.linalg.norm(self.robot.gravity))
        if 'robot.base_tilt' in self.given or size == 0.0:
            return
        self.progress(0.95, 'estimating the tilt of the base')
        down = self.robot.gravity / size
        axes = np.linalg.svd(down[None])[2][1:]  # two directions across gravity
        rows = self.rows
        tilted = rows.with_gravity(self.robot, self.model, [size * axis for axis in axes])
        plain, found = rows.cost(), tilted.cost()
        if not _better(found, plain):
            return
        # gravity plus x along the axes is gravity turned by the vector product
        values = tilted.fit()[-2:]
        # the columns are those of the fit with the gravity before: once more with the one found
        turned = self.robot.with_gravity((size * (down + values @ axes)).tolist())
        rows = self._read(self.model, self.signals, turned).through(*self._channels(rows))
        directions = [size * axis for axis in axes]
        values = values + rows.with_gravity(turned, self.model, directions).fit()[-2:]
        self.tilt = np.cross(down, values @ axes)
        text = 'against the gravity that is given'
        self._note('robot.base_tilt', tuple(self.tilt.tolist()), _gain(found, plain), text)

    def choose_decimation(self) -> None:
        """Let the rows keep what the motion's filter keeps."""
        if 'signals.decimate_to' not in self.given:
            self.signals = replace(self.signals, decimate_to=2.5 * self.signals.cutoff)

    def _note(self, key: str, value: object, gain: float, reference: str) -> None:
        self.choices.append(Choice(key, value, gain, reference))


@dataclass(frozen=True)
class _Stretch:
    """
    Rows of consecutive moments.

    Attributes
    ----------
    signals:
        (K, m) entries of the rows, joint by joint, and the columns added to them.
    effort, position, velocity:
        (m, n).

    """

    signals: np.ndarray
    effort: np.ndarray
    position: np.ndarray
    velocity: np.ndarray


@dataclass(frozen=True)
class _Rows:
    """
    Rows of the identification recordings at `WORKING_RATE`, in memory.

    Attributes
    ----------
    columns:
        The columns that each joint's entries stand for.
    width:
        Number b of columns.
    prior:
        (b,) values that the fit is weakly pulled to.
    stds:
        (b,) standard deviation of these values; infinite for those with the weak pull alone.
    own:
        (n, b) bool, columns of a joint's own friction.
    driven:
        (n,) bool.
    rate:
        Of the rows [Hz].
    stretches:
        The rows.
    structure:
        Base parameters of the columns.

    """

    columns: tuple[np.ndarray, ...]
    width: int
    prior: np.ndarray
    stds: np.ndarray
    own: np.ndarray
    driven: np.ndarray
    rate: float
    stretches: tuple[_Stretch, ...]
    structure: BaseStructure

    @property
    def n_joints(self) -> int:
        """Number of joints."""
        return len(self.columns)

    @property
    def _counted(self) -> float:
        """Square root of the independent rows of a joint, which residuals are norms of."""
        duration = sum(len(stretch.effort) for stretch in self.stretches) / self.rate
        return float(np.sqrt(max(1.0, duration * INDEPENDENT_RATE)))

    @classmethod
    def of(
        cls,
        sources: Sequence[RecordingSource],
        robot: Robot,
        model: ModelSettings,
        signals: SignalSettings,
    ) -> _Rows:
        """Read the recordings."""
        regressor = build(robot, model)
        base = structure(regressor, robot, grouping=model.grouping)
        pattern: RowPattern | None = None
        stretches: list[_Stretch] = []
        rate = WORKING_RATE
        for source in sources:
            blocks = row_blocks(source, regressor, base, signals)
            for _, group in itertools.groupby(blocks, key=lambda block: block.segment):
                parts = list(itertools.islice(group, _most_blocks()))
                pattern = parts[0].pattern
                time = np.concatenate([block.time for block in parts])
                if time.size < 2:
                    continue
                rate = 1.0 / float(np.median(np.diff(time)))
                stretches.append(
                    _Stretch(
                        np.hstack([block.entries for block in parts]),
                        np.vstack([block.effort for block in parts]),
                        np.vstack([block.position for block in parts]),
                        np.vstack([block.velocity for block in parts]),
                    )
                )
        assert pattern is not None
        values = base.regrouping @ urdf_prior(robot, model).values
        owners = [name.rpartition('.') for name in base.names]
        own = np.array(
            [
                [owner == joint and symbol in _FRICTION for owner, _, symbol in owners]
                for joint in robot.joints
            ]
        )
        return cls(
            columns=pattern.columns,
            width=base.n_base,
            prior=values,
            stds=np.full(base.n_base, np.inf),
            own=own,
            driven=driven_rows(regressor),
            rate=rate,
            stretches=tuple(stretches),
            structure=base,
        )

    def through(self, delays: np.ndarray, low_passes: np.ndarray) -> _Rows:
        """Pass the columns through the joints' channels."""
        pairs = zip(delays.tolist(), low_passes.tolist(), strict=True)
        kernels = [channel_kernel(delay, low_pass, self.rate) for delay, low_pass in pairs]
        groups = np.repeat(np.arange(self.n_joints), [c.size for c in self.columns])
        stretches = []
        for stretch in self.stretches:
            channel = EffortChannel(kernels, groups)
            signals = np.hstack([channel.push(stretch.signals), channel.finish()])
            stretches.append(replace(stretch, signals=signals))
        return replace(self, stretches=tuple(stretches))

    def with_gravity(
        self, robot: Robot, model: ModelSettings, directions: Sequence[np.ndarray]
    ) -> _Rows:
        """
        Add the columns of gravity along other directions, for the present fit.

        Their coefficients are the shares of gravity along the directions.
        """
        base = self.fit()
        ends = np.cumsum([c.size for c in self.columns])
        starts = np.concatenate(([0], ends[:-1]))
        rigid = np.where(self.own.any(axis=0), 0.0, base)
        efforts = []
        for direction in directions:
            regressor = build(robot.with_gravity(direction.tolist()), model)
            efforts.append(
                [
                    (
                        regressor.rows(
                            Motion(
                                s.position, np.zeros_like(s.position), np.zeros_like(s.position)
                            )
                        ).reshape(len(s.position), self.n_joints, -1)[
                            :, :, self.structure.independent
                        ]
                        @ rigid
                    ).T
                    for s in self.stretches
                ]
            )
        stretches = []
        for i, stretch in enumerate(self.stretches):
            parts = []
            for joint, (start, end) in enumerate(zip(starts, ends, strict=True)):
                parts.append(stretch.signals[start:end])
                parts.extend(of_direction[i][joint][None] for of_direction in efforts)
            stretches.append(replace(stretch, signals=np.vstack(parts)))
        added = np.arange(self.width, self.width + len(directions))
        return replace(
            self,
            columns=tuple(np.append(columns, added) for columns in self.columns),
            width=self.width + len(directions),
            prior=np.append(self.prior, np.zeros(len(directions))),
            stds=np.append(self.stds, np.full(len(directions), TILT_STD * self._counted)),
            own=np.hstack([self.own, np.zeros((self.n_joints, len(directions)), dtype=bool)]),
            stretches=tuple(stretches),
        )

    def grams(self, zone: float = 0.0) -> np.ndarray:
        """Return (FOLDS, n, b + 1, b + 1) normal matrices of rows faster than a dead zone."""
        total = sum(len(stretch.effort) for stretch in self.stretches)
        bounds = np.linspace(0, total, FOLDS + 1).astype(int)
        found = np.zeros((FOLDS, self.n_joints, self.width + 1, self.width + 1))
        first = 0
        for stretch in self.stretches:
            last = first + len(stretch.effort)
            for fold in range(FOLDS):
                part = slice(max(bounds[fold], first) - first, min(bounds[fold + 1], last) - first)
                if part.stop <= part.start:
                    continue
                start = 0
                for joint, columns in enumerate(self.columns):
                    stop = start + columns.size
                    rows = np.vstack(
                        [stretch.signals[start:stop, part], stretch.effort[part, joint]]
                    )
                    if zone > 0.0:
                        rows = rows[:, np.abs(stretch.velocity[part, joint]) >= zone]
                    places = np.append(columns, self.width)
                    found[fold, joint][np.ix_(places, places)] += rows @ rows.T
                    start = stop
            first = last
        return found

    def cost(self, zone: float = 0.0) -> np.ndarray:
        """
        Return the logarithm of the held-out residual of each stretch and driven joint.

        Parameters
        ----------
        zone:
            Dead zone of the rows that parameters are fitted to; all rows are predicted.

        """
        whole = self.grams()
        fitted = whole if zone == 0.0 else self.grams(zone)
        weights = self._weights(fitted.sum(axis=0))
        costs = np.empty((FOLDS, self.n_joints))
        for fold in range(FOLDS):
            base = self._solve(fitted.sum(axis=0) - fitted[fold], weights)
            costs[fold] = _log_residual(whole[fold], base)
        return costs[:, self.driven]

    def fit(self) -> np.ndarray:
        """Return the base parameters of all rows, (b,)."""
        grams = self.grams().sum(axis=0)
        return self._solve(grams, self._weights(grams))

    def own_costs(self, base: np.ndarray) -> np.ndarray:
        """
        Return the cost of each joint where its own friction alone is fitted.

        Parameters
        ----------
        base:
            (b,) the other parameters.

        Returns
        -------
        (FOLDS, n) logarithm of the held-out residual.

        """
        grams = self.grams()
        costs = np.empty((FOLDS, self.n_joints))
        for joint in range(self.n_joints):
            own = np.flatnonzero(self.own[joint])
            # what the other parameters predict is taken from the effort
            reduce = np.zeros((self.width + 1, own.size + 1))
            reduce[own, np.arange(own.size)] = 1.0
            reduce[: self.width, -1] = -np.where(self.own[joint], 0.0, base)
            reduce[self.width, -1] = 1.0
            parts = reduce.T @ grams[:, joint] @ reduce
            for fold in range(FOLDS):
                train = parts.sum(axis=0) - parts[fold]
                values = _solved(train[:-1, :-1], train[:-1, -1])
                held = np.append(-values, 1.0)
                energy = grams[fold, joint, -1, -1]
                costs[fold, joint] = _log_share(held @ parts[fold] @ held, energy)
        return costs

    def _weights(self, grams: np.ndarray) -> np.ndarray:
        """Return the joints' weights, iterated from the residuals of the joint fit, (n,)."""
        efforts = np.sqrt(np.maximum(grams[:, -1, -1], 1e-30))
        weights = self.driven / efforts
        for _ in range(4):
            base = self._solve(grams, weights)
            residual = np.exp(_log_residual(grams, base))
            weights = self.driven / residual
        return np.asarray(weights)

    def _solve(self, grams: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Solve the weighted normal equations of all joints with the pull towards the prior."""
        total = np.einsum('j,jkl->kl', weights**2, grams)
        pull = np.diag(total)[:-1] * _PULL + 1.0 / self.stds**2
        pull[pull == 0.0] = 1.0
        matrix = total[:-1, :-1] + np.diag(pull)
        return _solved(matrix, total[:-1, -1] + pull * self.prior)


def _most_blocks() -> int:
    """Return the blocks of `LONGEST` at a rate of a kilohertz."""
    return int(LONGEST * 1000.0 / 512.0)


def _solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    scale = 1.0 / np.sqrt(np.maximum(np.diag(matrix), 1e-30))
    scaled = matrix * scale * scale[:, None]
    return np.asarray(scale * np.linalg.lstsq(scaled, scale * right, rcond=1e-12)[0])


def _log_residual(grams: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Return the logarithm of each joint's residual, (n,)."""
    ahead = np.append(base, -1.0)
    squares = np.einsum('k,jkl,l->j', ahead, grams, ahead)
    return np.asarray(_log_share(squares, grams[:, -1, -1]))


def _log_share(squares: np.ndarray, energy: np.ndarray) -> np.ndarray:
    """Return half the logarithm of squares, not below a small share of the effort's."""
    least = _LEAST**2 * np.asarray(energy) + 1e-30
    return np.asarray(0.5 * np.log(np.maximum(squares, 0.0) + least))


def _standard_error(difference: np.ndarray) -> float:
    """Return the standard error of the mean over stretches."""
    return float(difference.std(ddof=1) / np.sqrt(difference.size))


def _better(cost: np.ndarray, than: np.ndarray) -> bool:
    """Return whether a cost is lower by more than half a standard error."""
    difference = (cost - than).mean(axis=1)
    return bool(difference.mean() < -0.5 * _standard_error(difference) - 1e-3)


def _simplest(costs: np.ndarray) -> int:
    """Return the first candidate within half a standard error of the best; costs (c, folds)."""
    best = int(np.argmin(costs.mean(axis=1)))
    for place, cost in enumerate(costs):
        difference = cost - costs[best]
        if difference.mean() <= max(0.5 * _standard_error(difference), 1e-3):
            return place
    return best


def _gain(cost: np.ndarray, reference: np.ndarray) -> float:
    """Return the change of the residual in per cent."""
    return 100.0 * float(np.expm1(cost.mean() - reference.mean()))


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return '[' + ', '.join(_shown(item) for item in value) + ']'
    return f'{value:.4g}' if isinstance(value, float) else str(value)
