# SPDX-License-Identifier: Apache-2.0
"""Numbers whose signs were lost are told from those that are positive."""

import numpy as np
import pytest
from robot_identification.data.lost_signs import lost_sign

WAVE = np.rint(90.0 * np.sin(np.linspace(0.0, 25.0, 500)))


@pytest.mark.parametrize(
    ('values', 'remedy'),
    [
        (WAVE, ''),
        (WAVE + 90.0, ''),
        (WAVE + 32768.0, ''),
        (WAVE + 1024.0, ''),
        (WAVE % 65536.0, 'subtract 65536 from values from 32768 on'),
        (WAVE % 2.0**32, 'subtract 4294967296 from values from 2147483648 on'),
        (np.where(WAVE < 0.0, 1024.0 - WAVE, WAVE), 'take 1024 off values from 1024 on'),
        (np.where(WAVE < 0.0, 32768.0 - WAVE, WAVE), 'take 32768 off values from 32768 on'),
        (WAVE % 256.0, 'subtract 256 from values from 128 on'),
        (np.where(WAVE < 0.0, 128.0 - WAVE, WAVE), 'take 128 off values from 128 on'),
        (WAVE + 128.0, ''),
        (0.5 * WAVE % 65536.0, ''),
        (np.abs(WAVE), ''),
        (np.zeros(0), ''),
    ],
)
def test_signs(values, remedy):
    assert lost_sign(values).startswith(remedy) and bool(lost_sign(values)) == bool(remedy)
