# SPDX-License-Identifier: Apache-2.0
"""
Errors of the files that leave: each predicts recordings alone.

A URDF is written, read again from its text by Pinocchio, and predicts by these bodies and its
``<dynamics>``, on the rows that the model itself is validated on: the motion is filtered alike,
dry friction has the direction that it has in the model, and predicted and measured efforts go
through the same channel.  Rows are linear in the parameters that a file has, so that the factor of
a recording gives the error of inverse dynamics by it.  A URDF has no tilt of the base: it is held
against gravity as it was stated, which takes rows of its own.

MJCF and actuators of Isaac Lab have the same bodies; what else they have is taken as written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
import warnings

import numpy as np

from ..config.problem import IdentificationProblem
from ..config.sources import Source
from ..errors import IdentificationError
from ..estimation.cone_sets import estimate_covariance
from ..estimation.coverage import coverage_of
from ..estimation.estimate import Estimate
from ..estimation.least_squares import evaluate
from ..estimation.plot_samples import ANALYSED_ROWS
from ..estimation.prior import body_scale
from ..estimation.spread import spread
from ..estimation.system import LinearSystem
from ..exports.joint_dynamics import FILE_TERMS, fitted_dynamics, held_parameters, with_dynamics
from ..exports.parameter_sets import file_sets, HELD
from ..exports.urdf_export import identified_urdf
from ..model.parameters import INERTIAL_SYMBOLS, ParameterSet
from ..model.robot import Robot, tilted_gravity
from ..regressor import ModelSettings
from ..regressor.building import urdf_values
from ..results.exported_files import (
    ExportedFiles,
    FileError,
    ISAACLAB,
    MJCF,
    MODEL,
    ORIGINAL,
    ParameterSpread,
    RecordingErrors,
    URDF,
    URDF_TILTED,
)
from .reduction import FactorBuilder, is_factor

Values = Mapping[str, float]
"""Parameters by their names; those that are not named are 0."""


def exported_files(
    problem: IdentificationProblem,
    system: LinearSystem,
    standard: ParameterSet,
    tilt: Sequence[float] = (0.0, 0.0, 0.0),
) -> ExportedFiles | None:
    """
    Return the friction that files have, fitted to the identification; nothing is judged yet.

    Parameters
    ----------
    problem:
        Robot and settings.
    system:
        Rows of the identification.
    standard:
        Standard parameters.
    tilt:
        (3,) by which gravity is turned in the problem's robot, a rotation vector [rad].

    Returns
    -------
    ExportedFiles or None
        None for robots that are no trees of stiff joints, and for energy equations, whose rows
        belong to no joint.

    """
    if not problem.kind.stiff_tree or problem.estimation.equations == 'energy':
        return None
    dynamics = {file: fitted_dynamics(system, standard, file) for file in FILE_TERMS}
    x, y, z = (float(value) for value in tilt)
    return ExportedFiles(dynamics, tilt=(x, y, z))


def parameter_spread(
    problem: IdentificationProblem,
    system: LinearSystem,
    estimate: Estimate,
    standard: ParameterSet,
    files: ExportedFiles,
) -> ParameterSpread:
    """
    Return by what sets of parameters are drawn.

    Parameters
    ----------
    problem, system, standard:
        As in `exported_files`.
    estimate:
        Gives the covariance.
    files:
        Friction that was fitted for the files, which sets have.

    """
    by_body = problem.estimation.distance == 'body'
    scale = body_scale(problem.robot, standard.layout) if by_body else None
    held = with_dynamics(held_parameters(standard, HELD), files.dynamics_of(HELD))
    fit = evaluate(system, system.structure.regrouping @ held.values)
    inflation = max(1.0, float(np.nan_to_num(spread(system, estimate))))
    return ParameterSpread(
        estimate_covariance(estimate, system, inflation, scale),
        inflation,
        {joint.joint: float(np.nan_to_num(joint.rmse)) for joint in fit.joints},
    )


@dataclass(frozen=True)
class FileJudge:
    """
    Judge of the files of a result.

    Attributes
    ----------
    problem:
        Robot and settings.
    files:
        Friction that was fitted for them.
    base:
        (b,) base parameters of the full model.
    standard:
        Standard parameters.

    """

    problem: IdentificationProblem
    files: ExportedFiles
    base: np.ndarray
    standard: ParameterSet

    def errors(
        self, system: LinearSystem, source: Source | None = None, *, identified: bool = False
    ) -> RecordingErrors:
        """
        Return what each file misses of a recording.

        Parameters
        ----------
        system:
            Its rows, by the problem's own model and gravity.
        source:
            The recording, from which rows are made where a file needs others; without it, or with
            a factor, such files are left out.
        identified:
            Whether the parameters come from it.

        """
        found = [_error(MODEL, system, self.base)]
        nominal, tilted = (self._rows(system, source, tilted=tilt) for tilt in (False, True))
        urdf = self._urdf
        found += _errors(ORIGINAL, nominal, urdf_values(self.problem.robot))
        if urdf is not None:
            found += _errors(URDF, nominal, urdf)
            if any(self.files.tilt):
                found += _errors(URDF_TILTED, tilted, urdf)
            found += _errors(MJCF, system, self._written(MJCF))
            if not any(drive.inertia == 'tied' for drive in self.problem.model.coupled_drives):
                found += _errors(ISAACLAB, nominal, self._written(ISAACLAB))
        errors = RecordingErrors(system.sources, tuple(found), identified)
        return errors if identified else self._with_coverage(errors, system)

    def _with_coverage(self, errors: RecordingErrors, system: LinearSystem) -> RecordingErrors:
        """Return the errors with what sets of parameters cover, where there are samples."""
        samples, sets, spread = system.trace.thinned(ANALYSED_ROWS), self._sets, self.files.spread
        if sets is None or spread is None or not len(samples):
            return errors
        joints = system.factor.joints
        noise = np.array([spread.noise.get(joint, 0.0) for joint in joints])
        bases = sets @ system.structure.regrouping.T
        drawn = np.array([samples.pattern.product(samples.entries, base) for base in bases])
        measured = np.where(samples.keep, samples.effort, np.nan)
        found, shares = coverage_of([(drawn, measured)], noise, len(sets))
        covered = dict(zip(joints, shares.tolist(), strict=True))
        return replace(errors, coverage=found, covered=covered)

    @cached_property
    def _sets(self) -> np.ndarray | None:
        """(m, p) sets of parameters as they leave; None where there are none."""
        return file_sets(self.standard, self.problem.model, self.files)

    @cached_property
    def _urdf(self) -> Values | None:
        """Values of the text of the URDF; None where a URDF cannot have the bodies."""
        robot = self.problem.robot
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # whoever writes the file is told
            try:
                text = identified_urdf(
                    robot,
                    self.standard,
                    self.problem.model,
                    dynamics=self.files.dynamics_of(URDF),
                )
                again = Robot.from_urdf(
                    text, robot.joints, locked=robot.locked, gravity=robot.gravity.tolist()
                )
            except IdentificationError:
                return None
        return urdf_values(again)

    def _written(self, file: str) -> Values:
        """Return what a file has that is written from the same bodies, with its own terms."""
        held = with_dynamics(held_parameters(self.standard, file), self.files.dynamics_of(file))
        links = {f'{link}.{symbol}' for link in held.layout.links for symbol in INERTIAL_SYMBOLS}
        # the attributes of joints are not negative
        return {
            name: value if name in links else max(0.0, value)
            for name, value in held.as_dict().items()
        }

    def _rows(
        self, system: LinearSystem, source: Source | None, *, tilted: bool
    ) -> LinearSystem | None:
        """Return rows by which a URDF predicts, with the tilt in its base or without."""
        turned = any(self.files.tilt) and not tilted
        if not turned and self._model == self.problem.model:
            return system
        if source is None or is_factor(source):
            return None
        builder = self._plain_builder if turned else self._tilted_builder
        return builder.system([source])

    @cached_property
    def _plain_builder(self) -> FactorBuilder:
        """Builder of rows with gravity as it was stated."""
        robot = self.problem.robot
        back = [-value for value in self.files.tilt]
        plain = robot.with_gravity(tilted_gravity(robot.gravity.tolist(), back))
        problem = replace(self.problem, robot=plain, model=self._model)
        return FactorBuilder.from_problem(problem)

    @cached_property
    def _tilted_builder(self) -> FactorBuilder:
        return FactorBuilder.from_problem(replace(self.problem, model=self._model))

    @cached_property
    def _model(self) -> ModelSettings:
        """The model with all friction that the URDFs have."""
        model = self.problem.model
        joints = [self.problem.robot.contents.joints[name] for name in self.problem.robot.joints]
        friction = list(model.friction)
        if 'viscous' not in friction and any(joint.damping for joint in joints):
            friction.append('viscous')
        if not {'coulomb', 'stiction'} & {*friction} and any(joint.friction for joint in joints):
            friction.append('coulomb')
        return replace(model, friction=tuple(friction))


def _errors(file: str, rows: LinearSystem | None, values: Values) -> list[FileError]:
    """Return the error of a file with these parameters; none without rows."""
    if rows is None:
        return []
    structure = rows.structure
    vector = np.array([values.get(name, 0.0) for name in structure.layout])
    return [_error(file, rows, structure.regrouping @ vector)]


def _error(file: str, rows: LinearSystem, base: np.ndarray) -> FileError:
    """Return the error of base parameters (b,) as that of a file."""
    fit = evaluate(rows, base)
    return FileError(
        file, fit.relative_error, {joint.joint: joint.relative_error for joint in fit.joints}
    )
