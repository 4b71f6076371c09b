# SPDX-License-Identifier: Apache-2.0
"""
Identification of a robot's dynamic parameters, after its URDF and recordings of its motion.

The names below are imported when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import Any, TYPE_CHECKING

from .version import __version__ as __version__

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
    from .config.experiment_file import load_experiment
    from .data.recording import Recording
    from .errors import IdentificationError
    from .estimation import EstimationSettings
    from .estimation.validation import validate
    from .excitation import plan, PlannerSettings
    from .model.consistency import check
    from .model.parameters import ParameterLayout, ParameterSet
    from .model.robot import Robot
    from .pipeline import (
        IdentificationProblem,
        identify,
        identify_factors,
        identify_sources,
    )
    from .reduction import FactorBuilder
    from .regressor import ModelSettings
    from .results.factor_file import read_factor, write_factor
    from .results.result import read_result, Result
    from .results.saving import save
    from .results.urdf_export import identified_urdf
    from .signals import SignalSettings

_MODULE_OF = {
    'check': 'model.consistency',
    'EstimationSettings': 'estimation',
    'FactorBuilder': 'reduction',
    'IdentificationError': 'errors',
    'IdentificationProblem': 'pipeline',
    'identified_urdf': 'results.urdf_export',
    'identify': 'pipeline',
    'identify_factors': 'pipeline',
    'identify_sources': 'pipeline',
    'load_experiment': 'config.experiment_file',
    'ModelSettings': 'regressor',
    'ParameterLayout': 'model.parameters',
    'ParameterSet': 'model.parameters',
    'plan': 'excitation',
    'PlannerSettings': 'excitation',
    'read_factor': 'results.factor_file',
    'read_result': 'results.result',
    'Recording': 'data.recording',
    'Result': 'results.result',
    'Robot': 'model.robot',
    'save': 'results.saving',
    'SignalSettings': 'signals',
    'validate': 'estimation.validation',
    'write_factor': 'results.factor_file',
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value = getattr(import_module(f'.{_MODULE_OF[name]}', __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
