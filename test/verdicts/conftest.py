# SPDX-License-Identifier: Apache-2.0
"""The result of a simulated arm that nothing speaks against."""

import pytest
from robot_identification.results.result import Result
from simulated_arm import identified, run


@pytest.fixture(scope='session')
def good() -> Result:
    """Return the result of an arm, validated on a second run."""
    return identified(run(1), run(2, 'second run'))
