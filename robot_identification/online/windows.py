# SPDX-License-Identifier: Apache-2.0
"""
The polynomial approximation of a uniform stream, row by row, as `signals.windows` does it offline.

A row completes the window of the operator P that ends some rows before it: the motion without
phase shift, which Coulomb friction is evaluated at, looks ahead by half its own window.  So what
comes out is what the offline method finds, later by `OnlineWindows.delay`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..recording import Motion
from ..signals.windows import Windows


class WindowState(NamedTuple):
    """
    What a window gives.

    Attributes
    ----------
    motion:
        Two states: what P makes of the window, and the state without phase shift at the window's
        newest sample.
    effort:
        (n_joints,) what P makes of the efforts [N m or N].
    age:
        Time from the moment that P approximates to the newest sample [s].

    """

    motion: Motion
    effort: np.ndarray
    age: float


class OnlineWindows:
    """
    Filters the rows of a uniform stream, one and one.

    Parameters
    ----------
    windows:
        The operators for the stream's rate.
    n_joints:
        Number of positions and of efforts.
    n_filtered:
        Number of columns' entries that go through P, see `filtered`.
    trim:
        Time without windows at the start of a stretch [s].

    """

    def __init__(
        self, windows: Windows, n_joints: int, n_filtered: int = 0, *, trim: float = 0.0
    ) -> None:
        operator, centred = windows.operator, windows.centred
        self._n, taps = n_joints, operator.taps
        margin = (centred.taps - 1) // 2
        self._skipped = windows.cuts(trim)[0]
        self._reach = 2 * margin + taps
        self._delay = windows.tail
        # kernels over all rows that are held, so that one product gives everything
        kernels = np.zeros((5, self._reach))
        inner = slice(margin, margin + taps)
        for k in range(3):
            kernels[k, inner] = operator.derivative(k)
        for k in (1, 2):
            kernels[2 + k, taps - 1 :] = centred.derivative(k)
        self._kernels = kernels
        self._effort_kernel = np.zeros(self._reach)
        self._effort_kernel[inner] = operator.value(hold=windows.settings.effort_hold)
        self._middle = margin + taps - 1
        self._extra_kernel = operator.value()
        self._first_extra = 2 * margin
        # every row is written twice, a window's length apart, so that windows are contiguous
        self._rows = np.zeros((2 * self._reach, 2 * n_joints))
        self._extras = np.zeros((2 * taps, n_filtered))
        self._offset = np.zeros(n_joints)
        self._count = -self._skipped

    @property
    def delay(self) -> float:
        """How long before the newest row the results are valid [s]."""
        return self._delay

    def restart(self) -> None:
        """Forget all rows, as after a gap."""
        self._count = -self._skipped

    def push(self, row: np.ndarray) -> WindowState | None:
        """
        Take a row.

        Parameters
        ----------
        row:
            (2 n_joints,) positions and efforts.

        Returns
        -------
        WindowState or None
            None until there are enough rows for the motion without phase shift; from then on the
            entries at its second state have to be given to `filtered`, which says when the window
            is full.

        """
        count, n, reach = self._count, self._n, self._reach
        self._count += 1
        if count < 0:
            return None
        if count == 0:
            # positions far from 0 would cost digits of the acceleration
            self._offset = row[:n].copy()
        place = count % reach
        first = self._rows[place]
        np.subtract(row[:n], self._offset, out=first[:n])
        first[n:] = row[n:]
        self._rows[place + reach] = first
        if count < self._first_extra:
            return None
        # rows from before the stretch are not looked at: their results are not used
        held = self._rows[place + 1 : place + 1 + reach]
        products = self._kernels @ held[:, :n]
        motion = Motion(
            np.stack((products[0] + self._offset, held[self._middle, :n] + self._offset)),
            products[1::2],
            products[2::2],
        )
        return WindowState(motion, self._effort_kernel @ held[:, n:], self._delay)

    def filtered(self, entries: np.ndarray) -> np.ndarray | None:
        """
        Take the entries of columns at the motion without phase shift, and return what P makes.

        Parameters
        ----------
        entries:
            (n_filtered,) at the second state of the last `WindowState`.

        Returns
        -------
        np.ndarray or None
            (n_filtered,); None until the window is full.

        """
        taps = self._extra_kernel.size
        index = self._count - 1 - self._first_extra
        place = index % taps
        self._extras[place] = self._extras[place + taps] = entries
        if index < taps - 1:
            return None
        return self._extra_kernel @ self._extras[place + 1 : place + 1 + taps]
