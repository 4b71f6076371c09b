# SPDX-License-Identifier: Apache-2.0
"""
Identification of a robot's dynamic parameters, after its URDF and recordings of its motion.

The names below are imported when they are first used, so that importing the package costs nothing.
"""

from typing import TYPE_CHECKING

from .lazy import lazily

__version__ = '0.1.0'

__all__ = [
    'check',
    'EstimationSettings',
    'FactorBuilder',
    'IdentificationError',
    'IdentificationProblem',
    'identified_urdf',
    'identify',
    'identify_factors',
    'identify_sources',
    'load_experiment',
    'ModelSettings',
    'ParameterLayout',
    'ParameterSet',
    'plan',
    'PlannerSettings',
    'read_factor',
    'read_result',
    'Recording',
    'Result',
    'Robot',
    'save',
    'SignalSettings',
    'validate',
    'write_factor',
]

if TYPE_CHECKING:
    from .consistency import check
    from .errors import IdentificationError
    from .estimation import EstimationSettings
    from .excitation import plan, PlannerSettings
    from .io.experiment import load_experiment
    from .io.factors import read_factor, write_factor
    from .io.results import read_result, Result
    from .io.urdf import identified_urdf
    from .parameters import ParameterLayout, ParameterSet
    from .pipeline import IdentificationProblem, identify, identify_factors, identify_sources
    from .recording import Recording
    from .reduction import FactorBuilder
    from .regressors import ModelSettings
    from .robot import Robot
    from .saving import save
    from .signals import SignalSettings
    from .validation import validate
else:
    _MODULES = {
        'consistency': ('check',),
        'errors': ('IdentificationError',),
        'estimation': ('EstimationSettings',),
        'excitation': ('plan', 'PlannerSettings'),
        'io.experiment': ('load_experiment',),
        'io.factors': ('read_factor', 'write_factor'),
        'io.results': ('read_result', 'Result'),
        'io.urdf': ('identified_urdf',),
        'parameters': ('ParameterLayout', 'ParameterSet'),
        'pipeline': ('identify', 'identify_factors', 'identify_sources', 'IdentificationProblem'),
        'recording': ('Recording',),
        'reduction': ('FactorBuilder',),
        'regressors': ('ModelSettings',),
        'robot': ('Robot',),
        'saving': ('save',),
        'signals': ('SignalSettings',),
        'validation': ('validate',),
    }

    __getattr__ = lazily(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
