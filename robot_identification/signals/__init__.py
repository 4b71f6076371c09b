# SPDX-License-Identifier: Apache-2.0
"""From recordings to samples: uniform grid, filtering, differentiation, parallel decimation."""

from .decimation import independence, ParallelDecimator
from .sampling import sample_rate
from .settings import dead_zones, decimation_factor, SignalSettings
from .source import RecordingSource
from .stream import process, stream, stretches
from .windows import WindowedSamples

__all__ = [
    'ParallelDecimator',
    'RecordingSource',
    'SignalSettings',
    'WindowedSamples',
    'dead_zones',
    'decimation_factor',
    'independence',
    'process',
    'sample_rate',
    'stream',
    'stretches',
]
