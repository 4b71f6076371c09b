# SPDX-License-Identifier: Apache-2.0
"""
Regressors: efforts that are linear in the dynamic parameters, ``effort = W(q, dq, ddq) p``.

`build` makes a robot's inverse dynamics regressor, `prior` the parameters given by its URDF.
"""

from ..model.mechanisms import DeltaSettings, ElasticJoints, LoopSettings
from .elastic import ElasticRegressor
from .inverse_dynamics import (
    build,
    InverseDynamicsRegressor,
    predict,
    prior,
    Regressor,
)
from .settings import CoupledDrive, ModelSettings

__all__ = [
    'CoupledDrive',
    'DeltaSettings',
    'ElasticJoints',
    'ElasticRegressor',
    'InverseDynamicsRegressor',
    'LoopSettings',
    'ModelSettings',
    'Regressor',
    'build',
    'predict',
    'prior',
]
