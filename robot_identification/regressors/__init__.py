# SPDX-License-Identifier: Apache-2.0
"""
Regressors: efforts that are linear in the dynamic parameters, ``effort = W(q, dq, ddq) p``.

`build` makes a robot's inverse dynamics regressor, `prior` what its URDF says about the
parameters.
"""

from .elastic import ElasticJoints, ElasticRegressor
from .inverse_dynamics import build, InverseDynamicsRegressor, predict, prior, Regressor
from .settings import CoupledDrive, ModelSettings

__all__ = [
    'CoupledDrive',
    'ElasticJoints',
    'ElasticRegressor',
    'InverseDynamicsRegressor',
    'ModelSettings',
    'Regressor',
    'build',
    'predict',
    'prior',
]
