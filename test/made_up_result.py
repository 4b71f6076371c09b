# SPDX-License-Identifier: Apache-2.0
"""A result to write, read, judge, export and show."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from robot_identification.data.drives import Drives, EffortDrive
from robot_identification.estimation.estimators import EstimationSettings
from robot_identification.estimation.least_squares import essential, wls
from robot_identification.estimation.prior import standard, standard_covariance
from robot_identification.estimation.system import from_rows
from robot_identification.estimation.validation import Validation
from robot_identification.model.consistency import check
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings
from robot_identification.regressor import prior as urdf_prior
from robot_identification.regressor.base_search import structure
from robot_identification.results.result import RecordingSummary, Result
from robot_identification.results.tables import ResultSettings
from robot_identification.signals import SignalSettings

URDF = Path(__file__).parents[1] / 'urdf' / 'gautier_khalil_3r.urdf'


def made_up_result() -> Result:
    """Return a result of rows that are drawn at random, one parameter not excited."""
    robot = Robot.from_urdf(URDF)
    model = ModelSettings()
    base = structure(build(robot, model), robot)
    prior = urdf_prior(robot, model)
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(200, 3, base.n_base))
    matrix[:, :, 4] = 0.0
    effort = matrix @ base.project(prior).values + 0.1 * rng.normal(size=(200, 3))
    system = from_rows(base, robot.joints, matrix, effort)
    estimate = wls(system, prior=prior, robot=robot.name)
    found = standard(estimate, base, prior)
    seen = Validation(
        **vars(estimate.fit), trace=system.trace.fit(estimate.base.values), sources=('b.csv',)
    )
    reduced = essential(system, estimate)
    return Result(
        name='made up',
        robot=robot,
        settings=ResultSettings(
            model=model,
            signals=SignalSettings(dead_zone=(0.1, 0.2, 0.3)),
            estimation=EstimationSettings(),
            effort_kind='motor_current',
            drives=Drives(effort=EffortDrive(tuple(map(tuple, (12.5 * np.eye(3)).tolist())))),
        ),
        prior=prior,
        structure=base,
        system=system,
        estimate=replace(estimate, essential=reduced.essential, notes=('3 outliers: "odd"',)),
        essential=reduced,
        standard=found,
        standard_covariance=standard_covariance(estimate, base),
        consistency=check(found),
        validations=(seen,),
        recorded=RecordingSummary(names=('a.csv',)),
        timing={'recordings': 0.25},
        warnings=('mind: the gap', *estimate.warnings),
    )
