# SPDX-License-Identifier: Apache-2.0
"""
From recordings to samples: uniform grid, filtering, differentiation, parallel decimation.

The names below are imported when they are first used.
"""

from typing import TYPE_CHECKING

from ..lazy import lazily

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

if TYPE_CHECKING:
    from .clock import Clock, clock_of, WatchedSource
    from .decimation import independence, ParallelDecimator
    from .online import OnlineFilter
    from .polynomial_approximation import PolynomialOperator
    from .polynomial_settings import PolynomialApproximation
    from .responses import frequency_response
    from .sampling import sample_rate
    from .settings import dead_zones, decimation_factor, SignalSettings
    from .source import RecordingSource, source_name
    from .streaming import process, stream, stretches
    from .windows import WindowedSamples
else:
    _MODULES = {
        'clock': (
            'Clock',
            'clock_of',
            'WatchedSource',
        ),
        'decimation': (
            'independence',
            'ParallelDecimator',
        ),
        'online': ('OnlineFilter',),
        'polynomial_approximation': ('PolynomialOperator',),
        'polynomial_settings': ('PolynomialApproximation',),
        'responses': ('frequency_response',),
        'sampling': ('sample_rate',),
        'settings': (
            'dead_zones',
            'decimation_factor',
            'SignalSettings',
        ),
        'source': (
            'RecordingSource',
            'source_name',
        ),
        'streaming': (
            'process',
            'stream',
            'stretches',
        ),
        'windows': ('WindowedSamples',),
    }

    __getattr__ = lazily(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
