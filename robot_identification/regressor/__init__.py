# SPDX-License-Identifier: Apache-2.0
"""
Regressors: efforts that are linear in the dynamic parameters, ``effort = W(q, dq, ddq) p``.

`build` makes a robot's inverse dynamics regressor, `prior` the parameters given by its URDF.
"""

from ..model.mechanisms import DeltaSettings, ElasticJoints, LoopSettings
from .building import build, prior
from .elastic import ElasticRegressor
from .floating import FloatingRegressor
from .inverse_dynamics import InverseDynamicsRegressor, predict, Regressor
from .settings import CoupledDrive, ModelSettings

__all__ = [
    'CoupledDrive',
    'DeltaSettings',
    'ElasticJoints',
    'ElasticRegressor',
    'FloatingRegressor',
    'InverseDynamicsRegressor',
    'LoopSettings',
    'ModelSettings',
    'Regressor',
    'build',
    'predict',
    'prior',
]
