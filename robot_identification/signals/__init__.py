# SPDX-License-Identifier: Apache-2.0
"""From recordings to samples: uniform grid, filtering, differentiation, parallel decimation."""

from ..data.clock import Clock, clock_of, WatchedSource
from ..data.recording import RecordingSource, source_name
from ..data.sampling import sample_rate
from .decimation import channel_kernel, EffortChannel, independence, ParallelDecimator
from .polynomial_approximation import PolynomialOperator
from .responses import frequency_response
from .settings import (
    by_joint,
    dead_zones,
    decimation_factor,
    PolynomialApproximation,
    SignalSettings,
)
from .streaming import process, stream, stretches
from .windows import OnlineFilter, WindowedSamples

__all__ = [
    'Clock',
    'EffortChannel',
    'OnlineFilter',
    'ParallelDecimator',
    'PolynomialApproximation',
    'PolynomialOperator',
    'RecordingSource',
    'SignalSettings',
    'WatchedSource',
    'WindowedSamples',
    'by_joint',
    'channel_kernel',
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
