# SPDX-License-Identifier: Apache-2.0
"""
Identification of a robot's dynamic parameters, after its URDF and recordings of its motion.

The names below are imported when they are first used, so that importing the package costs nothing.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
import sys
from typing import Any, TYPE_CHECKING

from .version import __version__ as __version__

__all__ = [
    'check',
    'EstimationSettings',
    'export',
    'FactorBuilder',
    'IdentificationError',
    'IdentificationProblem',
    'identified_urdf',
    'identify',
    'identify_factors',
    'identify_sources',
    'identify_tool',
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
    'verdict',
    'write_factor',
]

if TYPE_CHECKING:
    from .config.experiment_file import load_experiment
    from .data.recording import Recording
    from .errors import IdentificationError
    from .estimation.validation import validate
    from .estimators import EstimationSettings
    from .excitation import plan, PlannerSettings
    from .identification.library import identify
    from .identification.pipeline import IdentificationProblem, identify_factors, identify_sources
    from .identification.reduction import FactorBuilder
    from .identification.tool_pipeline import identify_tool
    from .model.consistency import check
    from .model.parameters import ParameterLayout, ParameterSet
    from .model.robot import Robot
    from .regressor import ModelSettings
    from .results.factor_file import read_factor, write_factor
    from .results.formats import export
    from .results.result import Result
    from .results.saving import save
    from .results.stored_result import read_result
    from .results.urdf_export import identified_urdf
    from .results.verdict import verdict
    from .signals import SignalSettings

_MODULES = {
    'config.experiment_file': ('load_experiment',),
    'data.recording': ('Recording',),
    'errors': ('IdentificationError',),
    'estimation.validation': ('validate',),
    'estimators': ('EstimationSettings',),
    'excitation': (
        'plan',
        'PlannerSettings',
    ),
    'identification.library': ('identify',),
    'model.consistency': ('check',),
    'model.parameters': (
        'ParameterLayout',
        'ParameterSet',
    ),
    'model.robot': ('Robot',),
    'identification.pipeline': (
        'IdentificationProblem',
        'identify_factors',
        'identify_sources',
    ),
    'identification.reduction': ('FactorBuilder',),
    'identification.tool_pipeline': ('identify_tool',),
    'regressor': ('ModelSettings',),
    'results.factor_file': (
        'read_factor',
        'write_factor',
    ),
    'results.formats': ('export',),
    'results.result': ('Result',),
    'results.saving': ('save',),
    'results.stored_result': ('read_result',),
    'results.urdf_export': ('identified_urdf',),
    'results.verdict': ('verdict',),
    'signals': ('SignalSettings',),
}


def lazily(package: str, modules: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """
    Return the ``__getattr__`` of a package.

    Parameters
    ----------
    package:
        Its ``__name__``.
    modules:
        The names that each of its modules has for it.

    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(import_module(f'.{module_of[name]}', package), name)
        # a module may have the name that it is asked for: the function comes before it
        setattr(sys.modules[package], name, value)
        return value

    return get


__getattr__ = lazily(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
