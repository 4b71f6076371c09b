# SPDX-License-Identifier: Apache-2.0
"""
Diagnosis of recordings: what is wrong with them, and what mends it.

Single explanations (`hypotheses`) are tried one after the other: each changes the samples, gravity
or the load, and the robot is fitted again (`hypothesis_fit`), without springs, which could make up
for what is wrong.  An explanation is reported where it fits decisively better than the recordings
as they are, with the prior's misfit and that of every joint counted, and where stretches of time
that its fit has not seen say the same.  Beside that there is what needs no model
(`recording_faults`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations

import numpy as np
from scipy.optimize import minimize_scalar

from ..data.recording import Motion, RecordingSource
from ..model.parameters import ParameterSet
from ..model.plausibility import robot_reach
from ..model.robot import Robot
from ..regressor import build, Regressor
from ..regressor import prior as urdf_prior
from ..regressor.kinds import ELASTIC, kind_of
from ..regressor.settings import ModelSettings
from ..support.progress import no_progress, Progress
from .disturbance import Disturbance, KINDS, times_left_out
from .disturbances import disturbances
from .effort_source import source_faults, with_bodies
from .hypotheses import (
    CANDIDATES,
    Correction,
    coupled_efforts,
    gravity_change,
    hypotheses,
    NONE,
)
from .hypothesis_fit import (
    data_cost,
    FIT,
    gram_matrices,
    HypothesisFit,
    HypothesisModel,
    residual_squares,
)
from .noisy_limits import noisy_limits
from .recording_faults import (
    diagnosis_samples,
    DiagnosisSamples,
    forgotten_loads,
    in_seconds,
    read_first_rows,
    recording_faults,
    RecordingFault,
    revolute,
    still_joints,
    with_default_gravity,
)

LEAST = {
    'effort_delay': 0.03,
    'effort_scale': np.log(1.2),
    'effort_kind': np.log(2.5),
    'position_offset': np.radians(10.0),
    'gravity_direction': np.radians(5.0),
    'time_scale': np.log(1.3),
    'position_scale': np.log(1.15),
    'coupled_drives': 0.2,
    'coupled_efforts': 0.2,
}
"""Sizes above which faults are reported: s, logarithm of a factor, rad."""


@dataclass(frozen=True)
class DiagnosisCriteria:
    """Constants of the comparison of explanations."""

    decisive: float = 25.0
    """Gain above which an explanation is reported [nats]."""
    decisive_scale: float = 7.0
    """The same of scales of efforts, which masses show; what one joint's has to be better by."""
    decisive_gravity: float = 15.0
    """The same of efforts without gravity: one explanation without joint or size, not hundreds."""
    inertial_share: float = 0.5
    """Share of a joint's effort that bodies make, below which nothing is known of its gain."""
    implausible_distance: float = 5.0
    """Median distance of links from the URDF's, above which it tells of no scale [nats]."""
    coupled: float = 1.2
    """Improvement of the whole robot that columns of two joints, mixed, make by chance."""
    moved: float = 1.1
    """The same of one joint's position that is turned or scaled."""
    nearer: float = 6.0
    """By which bodies come nearer to the URDF's with less than that [nats]."""
    unexplained: float = 0.5
    """Relative residual of most joints above which an explanation is none."""
    density: float = 1000.0
    """Mass by the cube of the reach that no robot has, however wrong its URDF is [kg/m^3]."""
    shortlisted: int = 16
    """Explanations of single joints that are fitted beside those of all joints."""
    finalists: int = 3
    """Explanations whose sizes are looked for."""
    sizes: int = 8
    """Steps of that search, and of the descent that turns gravity."""
    close: float = 0.05
    """How close it comes, in its variable."""
    worth_refining: float = 3.0
    """Gain above which the size of a change is looked for [nats]."""
    alike: float = 0.1
    """Explanations that gain so much less, relative to the best, are named beside it."""
    same: float = 6.0
    """The same as a difference [nats]."""
    by_masses: float = 1.3
    """Improvement of the fit below which it is the masses that show it."""


CRITERIA = DiagnosisCriteria()


@dataclass(frozen=True)
class Explanation:
    """
    A change and the fit to samples so changed.

    Attributes
    ----------
    change, fit:
        Change of samples, gravity or load, and the fit to the samples with it.
    gain:
        How much it costs less than no change [nats].

    """

    change: Correction
    fit: HypothesisFit
    gain: float

    @property
    def decisive(self) -> float:
        """Gain above which it is reported [nats]."""
        if self.change.code in ('effort_scale', 'effort_kind'):
            return CRITERIA.decisive_scale
        gravity = self.change.code == 'gravity_compensated'
        return CRITERIA.decisive_gravity if gravity else CRITERIA.decisive


def diagnose(
    robot: Robot,
    sources: Sequence[RecordingSource],
    model: ModelSettings | None = None,
    prior: ParameterSet | None = None,
    delay: np.ndarray | float | tuple[float, ...] = 0.0,
    identified: ParameterSet | None = None,
    std: np.ndarray | float = 0.0,
    *,
    disturbed: Sequence[Disturbance] | None = None,
    progress: Progress = no_progress,
) -> tuple[RecordingFault, ...]:
    """
    Return the faults of recordings; none of good ones.

    Those of robots with closed loops or elastic joints have no explanation by a fit.

    Parameters
    ----------
    robot:
        The robot as its URDF and the settings say.
    sources:
        Recordings at the joints, of the same set-up; the beginning of each is read.
    model:
        Terms of the dynamics, of which coupled drives count.
    prior:
        Standard parameters over the regressor's layout; the URDF's where None.
    delay:
        Of the efforts, that the model has already [s]; one number, or (n,).
    identified, std:
        Physical standard parameters, whose masses tell of loads, and their standard deviations;
        where None, those of a fit to few samples do.
    disturbed:
        Times that do not belong to the others, of which those that can be are left out of the
        sources already; where None, they are looked for.
    progress:
        Called with the share that is done, and what is being done.

    """
    model = model or ModelSettings()
    recordings, clocks = in_seconds(read_first_rows(sources))
    found = list(clocks)
    if disturbed is None:
        disturbed = disturbances(robot, recordings, model)
        found += [each.fault for each in disturbed if each.left_out]
        recordings = tuple(
            each.without(times_left_out(disturbed, i)) for i, each in enumerate(recordings)
        )
    two = [each.fault for each in disturbed if not each.left_out]
    found += two
    kind = kind_of(robot, model)
    if kind is not ELASTIC:  # else a recording has the motors, too
        found += recording_faults(robot, recordings)
    robot = with_default_gravity(robot)
    # nothing else explains recordings of two robots
    tried = kind.stiff_tree and not two
    observed = diagnosis_samples(recordings, np.asarray(delay)) if tried else None
    explained: list[RecordingFault] = []
    if observed is not None:
        with suppress(np.linalg.LinAlgError):  # efforts or positions beyond all measure
            settings = ModelSettings(coupled_drives=model.coupled_drives)
            comparison = HypothesisComparison(robot, observed, settings, prior, progress)
            origin = comparison.source_faults()
            # efforts of the URDF itself need no explanation
            modelled = [fault for fault in origin if fault.code == 'modelled_efforts']
            explained = modelled or comparison.faults() or origin
            fitted = ParameterSet(comparison.prior.layout, comparison.base.chi)
            identified = identified or fitted
    explained = [fault for fault in explained if not _follows(fault, found)]
    right = all(fault.minor for fault in explained)
    if right and kind.stiff_tree:  # with another sign, friction looks like a limit
        found += noisy_limits(robot, recordings, model)
    if right and identified is not None:
        found += forgotten_loads(robot, prior or urdf_prior(robot, model), identified, std)
    return (*explained, *found)


def _follows(explained: RecordingFault, found: Sequence[RecordingFault]) -> bool:
    """
    Return whether an explanation may follow from efforts that recordings show to be wrong.

    Efforts at a limit, of a joint at rest or of a time that was left out mend no fit, so that what
    does so slightly, or by mixing the efforts of such a joint with others, is a guess.
    """
    wrong = [fault for fault in found if fault.code in _WRONG_EFFORTS]
    joints = {joint for fault in wrong for joint in fault.joints}
    mixed = explained.code == 'coupled_efforts' and bool(joints & {*explained.joints})
    return bool(wrong) and (explained.minor or mixed)


_WRONG_EFFORTS = ('saturation', 'still_joint', *KINDS)
"""Faults of efforts that are seen without an explanation."""


class HypothesisComparison:
    """
    Comparison of changes by fits to the same samples.

    Parameters
    ----------
    robot, observed:
        What is compared.
    settings:
        Terms of the dynamics that depend on the samples alone, not on what was before.
    prior:
        Standard parameters over the regressor's layout; the URDF's where None.
    progress:
        Called for each fit with the share of `explanations` that is done.

    """

    def __init__(
        self,
        robot: Robot,
        observed: DiagnosisSamples,
        settings: ModelSettings,
        prior: ParameterSet | None = None,
        progress: Progress = no_progress,
    ) -> None:
        self._progress, self._share = progress, 0.0
        self.robot, self.settings = robot, settings
        urdf = urdf_prior(robot, self.settings)
        known = {} if prior is None else {n: prior[n] for n in urdf.layout if n in prior.layout}
        self.prior = urdf.updated(known)
        self.model = HypothesisModel(robot, self.settings, self.prior)
        self.regressor = build(robot, self.settings)
        self.rows = _rows(self.regressor, observed.motion)  # (m, n, p)
        bodies = np.where(self.model.inertial, self.prior.values, 0.0)
        weight = _rows(self.regressor, _at_rest(observed.motion)) @ bodies
        self.observed = replace(observed, weight=weight)
        self.grams = gram_matrices(self.rows, observed.effort)
        self.base = self.model.fit(_normalised(self.grams, observed.effort))

    @cached_property
    def before(self) -> np.ndarray:
        """(n,) relative residuals of held-out stretches without any change."""
        return self._held_out(NONE, self.base)

    def explanations(self) -> list[Explanation]:
        """Return the best explanation and those nearly as good; none where nothing is wrong."""
        # a joint that stays where it is tells nothing
        still = set(np.flatnonzero(still_joints(self.robot, [self.observed.motion.position])))
        if 2 * len(still) > len(self.robot.joints):
            return []
        every = hypotheses(self.robot.gravity, revolute(self.robot))
        tried = [change for change in every if not still.intersection(change.joints)]
        tried += [change for change in self._couplings() if not still.intersection(change.joints)]
        found = self._tried(self._shortlisted(tried), 0.4, 0.8)
        found.append(self._turned(Explanation(gravity_change(self.robot.gravity), self.base, 0.0)))
        found = sorted((e for e in found if e.gain > CRITERIA.worth_refining), key=_rank)
        found[: CRITERIA.finalists] = map(self._refined, found[: CRITERIA.finalists])
        sizes: dict[object, Explanation] = {}
        for each in sorted(found, key=_rank):  # of one kind the size that fits best
            sizes.setdefault((each.change.code, each.change.joints), each)
        found = list(filter(self._admissible, sizes.values()))
        decisive = (each for each in found if each.gain > each.decisive)
        best = next(filter(self._confirmed, decisive), None)
        if best is None:
            return []
        if best.change.code == 'effort_kind' and self._by_one_joint(best, sizes.values()):
            return []
        near = best.gain - max(CRITERIA.same, CRITERIA.alike * best.gain)
        return [best, *(each for each in found if each is not best and each.gain > near)]

    def _by_one_joint(self, best: Explanation, others: Iterable[Explanation]) -> bool:
        """
        Return whether one joint explains more than an explanation of all efforts.

        That one may be none, and is not named then, but nor is the factor of all efforts, which
        masses show alone.
        """
        single = max((each.gain for each in others if each.change.joints), default=0.0)
        return single > best.gain + CRITERIA.decisive

    def _couplings(self) -> list[Correction]:
        """
        Return the couplings of neighboring drives that a fit without a prior asks for.

        The effort of another joint is one column more in the rows of one: its coefficient follows
        from the Gram matrices.
        """
        n, found = len(self.robot.joints), []
        if n > CANDIDATES.many:
            return []
        total = _normalised(self.grams, self.observed.effort)
        weights = self.base.weights
        columns = self.rows.transpose(1, 0, 2)
        size = len(self.observed.effort) * _variances(self.observed.effort)
        for j, k in permutations(range(n), 2):
            if abs(j - k) <= CANDIDATES.neighbours:
                other = self.observed.effort[:, k]
                with_bodies = columns[j].T @ other / size[j] * weights[j]
                with_effort = self.observed.effort[:, j] @ other / size[j] * weights[j]
                by_itself = other @ other / size[j] * weights[j]
                coefficient = self.model.further_column(
                    np.tensordot(weights, total, axes=1), with_bodies, with_effort, by_itself
                )
                if abs(coefficient) > LEAST['coupled_efforts']:
                    found.append(coupled_efforts(n, j, k, -coefficient))
        return found

    def _shortlisted(self, changes: list[Correction]) -> list[Correction]:
        """Return those that may gain, by fits without a prior; of single joints the best ones."""
        tried = self._tried(changes, 0.0, 0.4, free=True)
        gaining = (each for each in tried if each.gain > CRITERIA.worth_refining)
        found = [each.change for each in sorted(gaining, key=lambda each: -each.gain)]
        common, single = ([c for c in found if bool(c.joints) is one] for one in (False, True))
        best, rest = single[: CRITERIA.shortlisted], single[CRITERIA.shortlisted :]
        # a fit without a prior takes up the sign of a joint that nothing couples to others
        return [*common, *best, *(c for c in rest if c.code in ('effort_sign', 'position_sign'))]

    def _tried(
        self, changes: list[Correction], begin: float, end: float, *, free: bool = False
    ) -> list[Explanation]:
        """Fit the samples under each change; of the work, these are the shares from and to."""
        found = []
        for place, change in enumerate(changes):
            self._share = begin + (end - begin) * place / len(changes)
            found.append(self.explanation_by(change, free=free))
        self._share = end
        return found

    def explanation_by(self, change: Correction, *, free: bool = False) -> Explanation:
        """Fit the samples under a change, with the prior unless free."""
        self._progress(self._share, 'comparing explanations of the residuals')
        grams, recorded = self._grams(change), change.recorded(self.observed)
        try:
            fit = self.model.fit(_normalised(grams, recorded), free=free, start=self.base)
        except np.linalg.LinAlgError:
            return Explanation(change, self.base, -np.inf)
        return Explanation(change, fit, self.base.cost - fit.cost)

    def faults(self) -> list[RecordingFault]:
        """Return the fault of the best explanation, with those of others beside it."""
        found = [f for each in self.explanations() if self._explains(each, f := self.fault(each))]
        coupled = [f for f in found if f.code.startswith('coupled')]
        found = [
            f
            for f in found
            if f not in coupled or (f.improvement_of_all or 0.0) > CRITERIA.coupled
        ]
        return [replace(found[0], alternatives=tuple(found[1:]))] if found else []

    def _explains(self, explanation: Explanation, fault: RecordingFault) -> bool:
        """
        Return whether the robot as a whole is fitted no worse.

        An explanation of one joint is none otherwise, but for what the bodies show, which come
        much nearer to the URDF's.
        """
        of_all = fault.improvement_of_all
        if not fault.joints or fault.factor or of_all is None:
            return True
        moved = fault.code in ('position_offset', 'position_scale')
        if of_all >= (CRITERIA.moved if moved else 1.0):
            return True
        distances = [self.model.distances(fit.chi).sum() for fit in (self.base, explanation.fit)]
        hardly = moved and of_all >= 1.0
        nearer = CRITERIA.nearer if hardly else CRITERIA.decisive
        return bool(distances[0] - distances[1] > nearer)

    def source_faults(self) -> list[RecordingFault]:
        """Return what the efforts are, if they are not those of the joints."""
        bodies = np.where(self.model.inertial, self.prior.values, 0.0)
        free = self.explanation_by(NONE, free=True).fit.misfit
        observed = self.observed
        velocity, expected = observed.motion.velocity, self.rows @ bodies
        by_bodies = with_bodies(self.rows, observed.effort, observed.fold, self.model.inertial)
        return list(source_faults(observed.effort, velocity, expected, free, by_bodies))

    def fault(self, explanation: Explanation) -> RecordingFault:
        """Return the fault that an explanation undoes, with its numbers."""
        change, fit, names = explanation.change, explanation.fit, self.robot.joints
        what, remedy = change.in_words(names)
        before, after = self.before, self._held_out(change, fit)
        if change.code.startswith('coupled'):  # relative to what was recorded
            effort = self.observed.effort
            after = after * np.sqrt(_variances(change.efforts(self.observed)) / _variances(effort))
        after = after[change.effort_columns(len(after))]
        joint = int(np.argmax((before + FIT.floor) / (after + FIT.floor)))
        improvement = float(before[joint] / max(after[joint], 1e-6))
        size = _variances(self.observed.effort)
        of_all = float(np.sqrt((size @ before**2) / (size @ after**2 + 1e-4 * size.sum())))
        shown, factor, deviation = improvement >= CRITERIA.by_masses, None, None
        if shown:
            evidence = (
                f'fits {improvement:.3g} times better with {what}: the residual of {names[joint]} '
                f'falls from {100.0 * before[joint]:.3g} to {100.0 * after[joint]:.3g} % of its '
                'effort'
            )
        else:
            mass = self.base.chi[self.model.places[:, 0]].sum()
            evidence = (
                f'the links come much nearer to the URDF with {what}: without, their masses are '
                f'{mass:.3g} kg together, in the URDF {self._masses().sum():.3g} kg'
            )
        if change.code == 'effort_scale':
            # of a cost that is quadratic around its minimum
            factor = change.size
            deviation = float(factor * abs(np.log(factor)) / np.sqrt(2.0 * explanation.gain))
            evidence += f' (standard deviation of the factor {deviation:.2g})'
        by_fit = change.code != 'effort_kind'
        return RecordingFault(
            change.code,
            evidence,
            remedy,
            tuple(names[j] for j in change.joints),
            what,
            improvement=improvement if by_fit and shown else None,
            improvement_of_all=of_all if by_fit else None,
            factor=factor,
            deviation=deviation,
            correction=change,
        )

    def _admissible(self, explanation: Explanation) -> bool:
        """Return whether a change is too large for good recordings of good robots to show it."""
        change, masses = explanation.change, self._masses()
        size, ratios = abs(change.size), self.base.chi[self.model.places[:, 0]] / masses
        shown = data_cost(self.base.misfit**2) - data_cost(explanation.fit.misfit**2)
        recorded, effort = change.recorded(self.observed), change.efforts(self.observed)
        of_effort = explanation.fit.misfit * np.sqrt(_variances(recorded) / _variances(effort))
        if np.median(of_effort) > CRITERIA.unexplained:
            return False
        # bodies that no scale brings near to the URDF's say that the URDF is wrong
        far = np.median(self.model.distances(explanation.fit.chi)) > CRITERIA.implausible_distance
        implausible = self.robot.bodies_alike or far
        if change.code == 'effort_scale':
            known = explanation.gain > CRITERIA.decisive  # by other joints
            known = known or self._inertial_share(explanation) > CRITERIA.inertial_share
            size = (
                abs(np.log(size))
                if known and (shown > CRITERIA.decisive or not implausible)
                else 0
            )
        elif change.code in ('time_scale', 'position_scale'):
            size = abs(np.log(size))
            if implausible and shown < CRITERIA.decisive:
                return False
        elif change.code == 'effort_kind':
            weight = explanation.fit.chi[self.model.places[:, 0]].sum() / size
            if implausible and weight < CRITERIA.density * robot_reach(self.robot) ** 3:
                return False
            size = abs(np.log(size))
            if shown < CRITERIA.decisive * self.robot.n_joints:
                # masses alone tell: those of most links or of all together, not one with a load
                known_ratios = np.log([np.median(ratios), ratios @ masses / masses.sum()])
                size = min(size, (-np.sign(np.log(change.size)) * known_ratios).max())
        elif change.code == 'position_offset':
            size = abs(np.angle(np.exp(1j * size)))
        elif change.code == 'gravity_direction':
            size = _angle(np.array(change.gravity), self.robot.gravity)
        return bool(size >= LEAST.get(change.code, 0.0))

    def _inertial_share(self, explanation: Explanation) -> float:
        """
        Return the share of a joint's effort that bodies make in an explanation's fit.

        Friction and rotor of a joint grow with its effort, and tell nothing of its gain.
        """
        j, change = explanation.change.joints[0], explanation.change
        bodies = np.where(self.model.inertial, explanation.fit.chi, 0.0)
        effort = change.efforts(self.observed)[:, j]
        return float(np.std(self._rows(change)[:, j] @ bodies) / max(np.std(effort), 1e-300))

    def _confirmed(self, explanation: Explanation) -> bool:
        """Return whether held-out samples with the prior say the same."""
        after = self._held_out(explanation.change, explanation.fit)
        gain = data_cost(self.before**2) - data_cost(after**2)
        gain += float(self.model.distances(self.base.chi).sum())
        gain -= float(self.model.distances(explanation.fit.chi).sum())
        return gain > 0.5 * explanation.decisive

    def _held_out(self, change: Correction, fit: HypothesisFit) -> np.ndarray:
        """Return (n,) relative residuals of stretches of time that the fit has not seen."""
        fold, effort = self.observed.fold, change.efforts(self.observed)
        rows, recorded = self._rows(change), change.recorded(self.observed)
        grams = [gram_matrices(rows[fold == k], effort[fold == k]) for k in np.unique(fold)]
        parts = np.array([_normalised(each, recorded) for each in grams])
        square = np.zeros(parts.shape[1])
        for k, part in enumerate(parts):
            # a sum stays positive semidefinite, the difference from the whole might not
            rest = np.delete(parts, k, axis=0).sum(axis=0)
            square += residual_squares(part, self.model.refit(rest, fit))
        return np.sqrt(square)

    def _masses(self) -> np.ndarray:
        """Return (b,) masses of the links by the prior [kg]."""
        return np.array([body.mass for body in self.model.bodies])

    def _rows(self, change: Correction) -> np.ndarray:
        """Return the rows under a change, (m, n, p)."""
        if not change.moves and change.gravity is None:
            return self.rows
        regressor = self.regressor
        if change.gravity is not None:
            regressor = build(self.robot.with_gravity(list(change.gravity)), self.settings)
        return _rows(regressor, change.motion(self.observed.motion))

    def _grams(self, change: Correction) -> np.ndarray:
        rows, effort = self._rows(change), change.efforts(self.observed)
        if rows is not self.rows:
            return gram_matrices(rows, effort)
        # only the efforts are others
        grams, p = self.grams.copy(), rows.shape[-1]
        grams[:, p, :p] = grams[:, :p, p] = np.einsum('mjp,mj->jp', rows, effort)
        grams[:, p, p] = (effort**2).sum(axis=0)
        return grams

    def _refined(self, explanation: Explanation) -> Explanation:
        """Find the size of a change that fits best."""
        if explanation.change.code == 'gravity_direction':
            return self._turned(explanation)
        tried = [explanation]

        def cost(step: float) -> float:
            change = explanation.change.resized(step)
            assert change is not None
            tried.append(self.explanation_by(change))
            return -tried[-1].gain

        if explanation.change.resized(0.0) is not None:
            options = {'maxiter': CRITERIA.sizes, 'xatol': CRITERIA.close}
            minimize_scalar(cost, bounds=(-1.0, 1.0), method='bounded', options=options)
        best = max(tried, key=lambda each: each.gain)
        # a round size is likelier than one that fits better by what fits leave open
        return best if best.gain > explanation.gain + FIT.near else explanation

    def _turned(self, explanation: Explanation) -> Explanation:
        """
        Find the direction of gravity that fits best.

        Residuals are regressed on the efforts of gravity along x, y and z for the bodies of the
        present fit, which is then renewed.
        """
        best, size = explanation, float(np.linalg.norm(explanation.change.gravity or ()))
        at_rest = _at_rest(self.observed.motion)
        weights = np.stack(
            [
                _rows(build(self.robot.with_gravity(axis), self.settings), at_rest)
                for axis in np.eye(3).tolist()
            ]
        )
        for _ in range(CRITERIA.sizes if size > 0.0 else 0):
            fit, effort = best.fit, self.observed.effort
            unit = np.sqrt(fit.weights / _variances(effort))
            bodies = np.where(self.model.inertial, fit.chi, 0.0)
            residual = (effort - self._rows(best.change) @ fit.chi) * unit
            columns = (weights @ bodies * unit).reshape(3, -1).T
            turn = np.linalg.lstsq(columns, residual.ravel(), rcond=1e-6)[0]
            turned = np.array(best.change.gravity) + turn
            turned *= size / max(float(np.linalg.norm(turned)), 1e-9)
            found = self.explanation_by(gravity_change(turned))
            if found.gain < best.gain + 0.5:
                break
            best = found
        return best


def _rank(explanation: Explanation) -> float:
    """
    Return what explanations are sorted by: one joint's has to be better than all joints'.

    So has another rate, which can hide gravity or make up for efforts of another size.
    """
    particular = bool(explanation.change.joints) or explanation.change.code == 'time_scale'
    return CRITERIA.decisive_scale * particular - explanation.gain


def _rows(regressor: Regressor, motion: Motion) -> np.ndarray:
    """Return the rows of a motion, (m, n, p)."""
    return regressor.rows(motion).reshape(*motion.position.shape, -1)


def _at_rest(motion: Motion) -> Motion:
    """Return the positions of a motion, at each of which the robot stands."""
    still = np.zeros_like(motion.velocity)
    return Motion(motion.position, still, still)


def _normalised(grams: np.ndarray, effort: np.ndarray) -> np.ndarray:
    return np.asarray(grams / (len(effort) * _variances(effort))[:, None, None])


def _variances(effort: np.ndarray) -> np.ndarray:
    """Return the variance of each joint's effort, or what stands for it where there is none."""
    return np.asarray(np.maximum(effort.var(axis=0), 1e-12 * effort.mean(axis=0) ** 2 + 1e-30))


def _angle(first: np.ndarray, second: np.ndarray) -> float:
    sizes = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(np.arccos(np.clip(first @ second / sizes, -1.0, 1.0))) if sizes else np.pi
