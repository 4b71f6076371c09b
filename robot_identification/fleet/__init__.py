# SPDX-License-Identifier: Apache-2.0
"""Many recordings of many robots, reduced on many processors, merged and compared."""

from .comparison import Difference, Drift
from .result import FleetResult, RobotResult
from .run import identify_fleet, save_fleet

__all__ = ['Difference', 'Drift', 'FleetResult', 'identify_fleet', 'RobotResult', 'save_fleet']
