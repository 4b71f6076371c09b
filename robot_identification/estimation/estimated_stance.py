# SPDX-License-Identifier: Apache-2.0
"""
Stance of a robot on its feet from its efforts, where nothing says which contacts hold.

By the URDF's bodies, the forces of all contacts are found that explain the equations of base and
joints best.  A contact holds where the ground presses on it.  To say of a contact in the air that
it holds costs a few rows; to say of one that holds that it does not leaves a force in them, and
makes the robot too light: there is no threshold, and contacts hold a little longer.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import maximum_filter1d

from ..data.floating_recording import FloatingRecording
from ..regressor.floating import FloatingRegressor
from ..signals import SignalSettings
from .floating_rows import floating_stretches, FloatingSamples

CUTOFF = 20.0
"""Of the signals by which stance is found [Hz]: higher than that of the rows, to find its ends."""

HELD = 0.1
"""Time for which a contact is taken to hold before and after it carries [s]."""

_RANK = 1e-3
"""Singular values of the contacts, by the largest, along which no force is looked for."""


def estimated_stance(
    recording: FloatingRecording, regressor: FloatingRegressor, values: np.ndarray
) -> np.ndarray:
    """
    Estimate which contacts hold.

    Parameters
    ----------
    recording:
        Whose stance is not used.
    regressor:
        Of the robot.
    values:
        (p,) standard parameters before the identification.

    Returns
    -------
    np.ndarray
        (n_samples, c) bool.

    """
    stance = np.zeros((len(recording), len(regressor.contacts)), dtype=bool)
    signals = SignalSettings(cutoff=CUTOFF)
    for samples in floating_stretches(recording, regressor, signals):
        if not len(samples):
            continue
        carries = normal_forces(samples, regressor, values) > 0.0
        step = float(np.median(np.diff(samples.time))) if len(samples) > 1 else HELD
        width = max(1, round(HELD / step))
        carries = maximum_filter1d(carries, 2 * width + 1, axis=0)
        # the ends that filters leave out are like what is beside them
        ends = signals.ends + step
        first, last = samples.time[0] - ends, samples.time[-1] + ends
        own = (recording.time >= first) & (recording.time <= last)
        nearest = np.searchsorted(samples.time, recording.time[own]).clip(0, len(samples) - 1)
        stance[own] |= carries[nearest]
    return stance


def normal_forces(
    samples: FloatingSamples, regressor: FloatingRegressor, values: np.ndarray
) -> np.ndarray:
    """Return (m, c) forces of the contacts along the ground's normal [N]."""
    n = regressor.n_joints
    forces = np.empty((len(samples), len(regressor.contacts)))
    for start in range(0, len(samples), 1024):
        part = samples.rows(slice(start, start + 1024))
        left = (regressor.rows(part.motion) @ values).reshape(-1, n) - part.effort
        normal = part.normal if regressor.on_ground else None
        jacobians = regressor.jacobians(part.motion, normal)
        scaled = (jacobians / regressor.noise).transpose(0, 2, 1)
        found = np.linalg.pinv(scaled, rcond=_RANK) @ (left / regressor.noise)[:, :, None]
        first = np.concatenate([[0], np.cumsum([c.rows for c in regressor.contacts])[:-1]])
        for i, row in enumerate(first):
            # a base that moves upward moves the contact, too: the normal in the contact's frame
            upward = np.einsum('mij,mj->mi', jacobians[:, row : row + 3, :3], part.normal)
            forces[start : start + len(part), i] = np.sum(
                found[:, row : row + 3, 0] * upward, axis=1
            )
    return forces
