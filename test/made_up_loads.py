# SPDX-License-Identifier: Apache-2.0
"""Servos, a tool and a payload that nothing speaks against but the kind of their recordings."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from robot_identification.estimation.estimate import Fit, JointFit
from robot_identification.loads.payload import Payload
from robot_identification.loads.tool import CHANNELS, Tool
from robot_identification.model.consistency import check
from robot_identification.model.parameters import ParameterLayout, ParameterSet
from robot_identification.results.servo_result import MotionTrace, ServoResult
from robot_identification.servo.fit import ServoFit
from robot_identification.servo.parameter_sets import Coverage
from robot_identification.servo.parameters import FreeParameters, ServoParameters
from robot_identification.servo.settings import ServoSettings, SimulatorSettings
from simulated_arm import ROBOT

KINDS = ('armature', 'viscous', 'coulomb', 'delay', 'center')
BODY = np.array([2.0, 0.0, 0.0, 0.2, 0.05, 0.0, 0.06, 0.0, 0.0, 0.02])
"""Ten parameters of two kilograms."""


def servos(kinds=KINDS, fit=(), **changes):
    """Return servos that follow to a thousandth; ``fit`` are changes of their fit."""
    known = ServoParameters.with_neutral(
        3, armature=0.01, viscous=0.1, coulomb=0.2, delay=0.01, center=0.001
    )
    free = FreeParameters(kinds, known, ROBOT.joints, np.zeros(3, dtype=int))
    vector = free.vector(known.values)
    found = ServoFit(
        model=SimpleNamespace(
            timestep=1e-3,
            integrator='implicitfast',
            stiffness=np.full(3, 20.0),
            damping=np.ones(3),
        ),
        free=free,
        vector=vector,
        std=np.full(vector.size, 1e-6),
        blocks=np.tile(vector, (3, 1)),
        correlation=np.eye(vector.size),
        at_bound=np.zeros(vector.size, dtype=bool),
        rollouts=9,
        condition=10.0,
    )
    still = np.zeros((2, 3))
    result = ServoResult(
        name='made up',
        robot=ROBOT,
        servo=ServoSettings(stiffness=20.0, damping=1.0),
        simulator=SimulatorSettings(timestep=1e-3, integrator='implicitfast'),
        nominal=known,
        fit=replace(found, **dict(fit)),
        method='rollout',
        rmse=np.full(3, 1e-3),
        errors={'nominal': np.full(3, 0.1), 'start': np.full(3, 0.01), 'fit': np.full(3, 1e-3)},
        anew=np.full(3, 1e-3),
        starts=1,
        held_out=False,
        coverage=Coverage(0.5, 0.9, 20),
        motion=np.ones(3),
        traces=MotionTrace(np.arange(2.0), *[still] * 4),
        recordings=('a.npz',),
        seconds=1.0,
    )
    return replace(result, **changes)


def payload(**changes):
    """Return a payload of two kilograms that is known well."""
    layout = ParameterLayout.inertial(('load',))
    found = ParameterSet(layout, BODY)
    result = Payload(
        link='link_3',
        frame='link_3',
        base=found,
        expressions=layout.names,
        covariance=1e-6 * np.eye(10),
        classical_std=np.full(10, 1e-3),
        reasons=('',) * 10,
        standard=BODY,
        determined=np.ones(10, dtype=bool),
        consistency=check(found).links[0],
        physical=True,
        residual_std=1.0,
        fit=fit(1.0),
        fit_without=fit(100.0),
    )
    return replace(result, **changes)


def tool(error=1.0, **changes):
    """Return the same body as a tool; the fit misses some per cent of the wrench's changes."""
    return Tool(
        load=payload(fit=fit(error), **changes),
        sign=1,
        offset=np.zeros(6),
        offset_std=np.full(6, 1e-3),
        rotation=np.eye(3),
    )


def fit(error):
    """Return a fit of a wrench with an error [%] of efforts of 1."""
    joints = (JointFit(name, 100, 0.01 * error, error, error, 0.0) for name in CHANNELS)
    return Fit(tuple(joints), error, error)
