# SPDX-License-Identifier: Apache-2.0
"""Estimation of base parameters from the rows of recordings, in memory that does not grow."""

from .bootstrap import bootstrap, BootstrapSettings
from .energy import energy_blocks, EnergySettings
from .estimate import (
    Estimate,
    Fit,
    JointFit,
    ParameterEstimate,
)
from .factor import merge_all, ModelSignature, QRFactor
from .irls import irls, IrlsSettings, Repair
from .least_squares import (
    essential,
    evaluate,
    ols,
    wls,
)
from .link_constraints import PhysicalSettings
from .physical import physical
from .plot_samples import FitTrace, PlotSamples
from .prior import (
    body_scale,
    choose_prior,
    standard,
    standard_base_columns,
    standard_covariance,
    standard_essential,
)
from .residuals import effort_delay, EffortDelay
from .rows import row_blocks, RowBlock
from .system import accumulate, combine, from_rows, LinearSystem, system_of
from .validation import (
    f_test_factors,
)

__all__ = [
    'accumulate',
    'body_scale',
    'bootstrap',
    'BootstrapSettings',
    'choose_prior',
    'combine',
    'f_test_factors',
    'effort_delay',
    'EffortDelay',
    'energy_blocks',
    'EnergySettings',
    'essential',
    'Estimate',
    'evaluate',
    'Fit',
    'FitTrace',
    'from_rows',
    'irls',
    'IrlsSettings',
    'JointFit',
    'LinearSystem',
    'merge_all',
    'ModelSignature',
    'ols',
    'ParameterEstimate',
    'physical',
    'PhysicalSettings',
    'PlotSamples',
    'QRFactor',
    'Repair',
    'row_blocks',
    'RowBlock',
    'standard',
    'standard_base_columns',
    'standard_essential',
    'standard_covariance',
    'system_of',
    'wls',
]
