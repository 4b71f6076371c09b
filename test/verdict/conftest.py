# SPDX-License-Identifier: Apache-2.0
"""A result of rows that are drawn at random."""

from made_up_result import made_up_result
import pytest
from robot_identification.results.result import Result


@pytest.fixture(scope='module')
def result() -> Result:
    """Return a result of rows that are drawn at random, one parameter not excited."""
    return made_up_result()
