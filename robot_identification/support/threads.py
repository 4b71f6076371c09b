# SPDX-License-Identifier: Apache-2.0
"""Threads of the linear algebra, which cost more than they give on matrices of a robot's size."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec('P')
T = TypeVar('T')


def on_one_thread(function: Callable[P, T]) -> Callable[P, T]:
    """
    Run a function with one thread of the linear algebra, and as many as before after it.

    Threads that wait for each other made an identification of a seven-joint arm nine times as long
    on two busy cores, with 35 times the processor time.  Without threadpoolctl they stay; then the
    environment variables OMP_NUM_THREADS and OPENBLAS_NUM_THREADS are left to the caller.
    """

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        with _one_thread():
            return function(*args, **options)

    return call


def _one_thread() -> AbstractContextManager[object]:
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    limits: AbstractContextManager[object] = threadpool_limits(limits=1, user_api='blas')
    return limits
