# SPDX-License-Identifier: Apache-2.0
"""From recordings to samples: uniform grid, filtering, differentiation, parallel decimation."""

from .clock import Clock, clock_of, WatchedSource
from .decimation import independence, ParallelDecimator
from .online import OnlineFilter
from .polynomial_approximation import PolynomialOperator
from .polynomial_settings import PolynomialApproximation
from .responses import frequency_response
from .sampling import sample_rate
from .settings import dead_zones, decimation_factor, SignalSettings
from .source import RecordingSource, source_name
from .stream import process, stream, stretches
from .windows import WindowedSamples

__all__ = [
    'Clock',
    'OnlineFilter',
    'ParallelDecimator',
    'PolynomialApproximation',
    'PolynomialOperator',
    'RecordingSource',
    'SignalSettings',
    'WatchedSource',
    'WindowedSamples',
    'clock_of',
    'dead_zones',
    'decimation_factor',
    'frequency_response',
    'independence',
    'process',
    'sample_rate',
    'source_name',
    'stream',
    'stretches',
]
