# SPDX-License-Identifier: Apache-2.0
"""From recordings to samples: uniform grid, filtering, differentiation, parallel decimation."""

from ..data.recording import RecordingSource, source_name
from ..data.sampling import Clock, clock_of, recording_clock, sample_rate
from .decimation import (
    channel_kernel,
    EffortChannel,
    independence,
    ParallelDecimator,
)
from .polynomial_approximation import PolynomialOperator
from .responses import frequency_response
from .settings import (
    by_joint,
    decimation_factor,
    PolynomialApproximation,
    SignalSettings,
)
from .streaming import process, stretches
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
    'WindowedSamples',
    'by_joint',
    'channel_kernel',
    'clock_of',
    'decimation_factor',
    'frequency_response',
    'independence',
    'process',
    'recording_clock',
    'sample_rate',
    'source_name',
    'stretches',
]
