# SPDX-License-Identifier: Apache-2.0
"""Library calls use one thread of the linear algebra, and leave the caller's number as it was."""

import numpy as np
import pytest
import robot_identification
from robot_identification.support.threads import on_one_thread

threadpoolctl = pytest.importorskip('threadpoolctl')


def blas_threads():
    """Return the number of threads of each library of linear algebra that is loaded."""
    np.linalg.qr(np.eye(3))
    return {
        each['num_threads']
        for each in threadpoolctl.threadpool_info()
        if each['user_api'] == 'blas'
    }


def test_a_function_has_one_thread_and_its_caller_as_many_as_before():
    with threadpoolctl.threadpool_limits(limits=2, user_api='blas'):
        before = blas_threads()
        if not before:
            pytest.skip('threadpoolctl is older than the library of linear algebra')
        assert on_one_thread(blas_threads)() == {1}
        with pytest.raises(ZeroDivisionError):
            on_one_thread(lambda: 1 / 0)()
        assert blas_threads() == before != {1}


@pytest.mark.parametrize(
    'name', ['identify', 'identify_sources', 'identify_factors', 'identify_tool', 'plan']
)
def test_calls_that_compute_for_long_do_so(name):
    assert getattr(robot_identification, name).__wrapped__.__name__ == name
