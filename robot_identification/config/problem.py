# SPDX-License-Identifier: Apache-2.0
"""Identification problem: an experiment file without its recordings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..base_parameters import BaseStructure, structure
from ..data.drives import Drives
from ..estimation import choose_prior, EstimationSettings
from ..estimation.model_selection import ModelSelection
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from ..online import OnlineIdentifier
from ..regressor import build, ModelSettings, Regressor
from ..regressor import prior as urdf_prior
from ..signals import SignalSettings
from .experiment import Experiment, turned
from .sections import KnownLoad, PayloadRecordings


@dataclass(frozen=True)
class IdentificationProblem:
    """
    Identification problem: robot, model and methods, without recordings.

    Attributes
    ----------
    robot:
        The robot of the URDF.
    model:
        Terms of the dynamic model.
    signals:
        How recordings become samples.
    estimation:
        How samples become parameters.
    name:
        What the result is called.
    effort_kind:
        What the recorded efforts are (see `robot_identification.data.drives.EFFORT_KINDS`).
    drives:
        How recorded signals became those at the joints, for the record; the sources convert.
    known_load:
        The load of the recordings that drive gains are identified from; None for none.
    payload:
        Where the load sits that is to be identified, and how; None for none.

    """

    robot: Robot
    model: ModelSettings = field(default_factory=ModelSettings)
    signals: SignalSettings = field(default_factory=SignalSettings)
    estimation: EstimationSettings = field(default_factory=EstimationSettings)
    name: str = ''
    effort_kind: str = 'joint_torque'
    drives: Drives | None = None
    known_load: KnownLoad | None = None
    payload: PayloadRecordings | None = None

    @classmethod
    def of(cls, experiment: Experiment) -> IdentificationProblem:
        """
        Return the problem that an experiment file states; reads its URDF.

        Raises
        ------
        SettingsError
            where it leaves the gains of the drives to the recordings.
        ModelError
            as `Robot.from_urdf`.

        """
        experiment.robot.require_gains()
        return cls(
            robot=experiment.build_robot(),
            model=experiment.robot.model,
            signals=experiment.signals,
            estimation=experiment.estimation,
            name=experiment.name,
            effort_kind=experiment.robot.effort_kind,
            drives=experiment.robot.drives,
            known_load=experiment.data.known_load,
            payload=experiment.data.payload,
        )

    def with_selection(self, selection: ModelSelection) -> IdentificationProblem:
        """Return the problem with settings that were chosen."""
        gravity = turned(self.robot.gravity.tolist(), selection.tilt.tolist())
        return replace(
            self,
            robot=self.robot.with_gravity(gravity),
            model=selection.model,
            signals=selection.signals,
        )

    def regressor(self) -> Regressor:
        """Return the regressor of the robot with the terms of `model`."""
        return build(self.robot, self.model)

    def prior(self) -> ParameterSet:
        """
        Return the standard parameters that `estimation.prior` names.

        Raises
        ------
        SettingsError
            where it is a file that cannot be read or has unknown parameters.

        """
        return choose_prior(self.estimation.prior, urdf_prior(self.robot, self.model))

    def online(
        self,
        period: float,
        *,
        base: BaseStructure | None = None,
        weights: np.ndarray | None = None,
        memory: float | None = None,
    ) -> OnlineIdentifier:
        """
        Return what identifies the robot from a stream of samples.

        Parameters
        ----------
        period:
            Usual time between samples [s].
        base:
            The base parameters, where they have been found already.
        weights:
            (n,) factor of each joint's rows; ones where None.
        memory:
            Time after which a row counts 1/e of a new one [s]; None for all alike.

        Raises
        ------
        SettingsError
            where the settings ask for what cannot be had sample by sample.

        """
        regressor = self.regressor()
        if base is None:
            base = structure(regressor, self.robot, grouping=self.model.grouping)
        return OnlineIdentifier(
            regressor,
            base,
            getattr(regressor, 'joints', self.robot.joints),
            self.signals,
            self.estimation.mrls,
            period=period,
            prior=self.prior(),
            weights=weights,
            memory=memory,
        )
