# SPDX-License-Identifier: Apache-2.0
"""
Figaroh's way from samples to parameters, re-created from what figaroh 1.0.2 does.

What its class ``BaseIdentification`` does step by step, with its defaults, in code of our own: the
regressor comes sample by sample from Pinocchio and is written row by row into one dense matrix of
all standard parameters, joint after joint; columns of zeros are left out; three factorisations of
the dense matrix choose and regroup base parameters; the weighted solution comes from the normal
equations of a weighted copy.  Reports, files and plots are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from robot_identification.data.recording import Recording
from robot_identification.model.robot import Robot
from scipy import signal

CUTOFF = 25.0  # Hz, as ours
ORDER = 4
MEDIAN = 5
ZERO_COLUMN = 0.001
RANK = 1e-6
TIED = 1e-6


@dataclass(frozen=True)
class Found:
    """
    Result of a run.

    Attributes
    ----------
    columns:
        Places of the base parameters among the standard ones.
    least_squares, weighted:
        Base parameters without and with weights of the joints.
    deviations:
        Their standard deviations [%].

    """

    columns: np.ndarray
    least_squares: np.ndarray
    weighted: np.ndarray
    deviations: np.ndarray


def identify(robot: Robot, recording: Recording) -> Found:
    """Do it all."""
    q, dq, ddq, effort = samples(recording)
    W = regressor(robot, q, dq, ddq)
    living = np.flatnonzero(np.diag(W.T @ W) >= ZERO_COLUMN)
    reduced = np.delete(W, np.setdiff1d(np.arange(W.shape[1]), living), axis=1)
    tau = effort.T.flatten()
    chosen, base_rows, base = base_parameters(reduced, tau)
    weighted, deviations = weigh(base_rows, tau, base, robot.n_joints)
    unweighted_deviations(base_rows, tau, base)
    np.corrcoef(tau, base_rows @ base)
    return Found(living[chosen], base, weighted, deviations)


def samples(recording: Recording) -> tuple[np.ndarray, ...]:
    """Median filter, Butterworth forward and backward, `numpy.gradient` twice; joint by joint."""
    rate = 1.0 / np.median(np.diff(recording.time))
    numerator, denominator = signal.butter(ORDER, CUTOFF / (rate / 2.0), 'low')

    def filtered(values: np.ndarray) -> np.ndarray:
        out = np.zeros(values.shape)
        pad = 3 * (max(len(numerator), len(denominator)) - 1)
        for j in range(values.shape[1]):
            median = signal.medfilt(values[:, j], MEDIAN)
            out[:, j] = signal.filtfilt(numerator, denominator, median, padtype='odd', padlen=pad)
        return out

    def derivative(values: np.ndarray) -> np.ndarray:
        out = np.zeros(values.shape)
        for j in range(values.shape[1]):
            out[:, j] = np.gradient(values[:, j], recording.time)
        return out

    position = filtered(recording.position)
    velocity = derivative(position)
    return position, velocity, derivative(velocity), recording.effort


def regressor(robot: Robot, q: np.ndarray, dq: np.ndarray, ddq: np.ndarray) -> np.ndarray:
    """Fill (n samples, 14 n) sample by sample; all rows of a joint are together."""
    model, data = robot.model, robot.model.createData()
    count, n = q.shape
    positions, speeds = robot.configuration(q), robot.tangent(dq)
    accelerations = robot.tangent(ddq)
    out = np.zeros((count * n, 14 * n))
    for i in range(count):
        rows = pin.computeJointTorqueRegressor(
            model, data, positions[i], speeds[i], accelerations[i]
        )
        for j in range(n):
            place = j * count + i
            out[place, : 10 * n] = rows[j, :]
            out[place, 10 * n + j] = dq[i, j]
            out[place, 11 * n + j] = np.sign(dq[i, j])
            out[place, 12 * n + j] = ddq[i, j]
            out[place, 13 * n + j] = 1.0
    return out


def base_parameters(W: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Choose base columns and solve for their parameters, by QR with Q formed."""
    order, rank = pivots(W)
    np.linalg.qr(W[:, order], mode='reduced')
    chosen, rest = np.sort(order[:rank]), np.sort(order[rank:])
    Q, R = np.linalg.qr(np.c_[W[:, chosen], W[:, rest]])
    first, leading = Q[:, :rank], R[:rank, :rank]
    np.linalg.solve(leading, R[:rank, rank:])
    values = np.linalg.solve(leading, first.T @ tau)
    rows = first @ leading
    np.linalg.cond(leading)
    return chosen, rows, values


def pivots(W: np.ndarray) -> tuple[np.ndarray, int]:
    """Order columns greedily by what they have left, on R, re-orthogonalised."""
    left = np.linalg.qr(W, mode='r')
    remaining = np.ones(W.shape[1], dtype=bool)
    chosen: list[int] = []
    for _ in range(W.shape[1]):
        norms = np.linalg.norm(left, axis=0)
        norms[~remaining] = -1.0
        if norms.max() <= RANK:
            break
        best = int(np.flatnonzero(norms >= norms.max() * (1.0 - TIED))[0])
        chosen.append(best)
        remaining[best] = False
        unit = left[:, best] / norms[best]
        for _ in range(2):
            left = left - np.outer(unit, unit @ left)
    return np.array([*chosen, *np.flatnonzero(remaining)]), len(chosen)


def weigh(
    rows: np.ndarray, tau: np.ndarray, base: np.ndarray, n_joints: int
) -> tuple[np.ndarray, np.ndarray]:
    """Weigh each joint by its residuals, and solve the normal equations by an inverse."""
    residual = tau - rows @ base
    count = tau.size // n_joints
    variance = np.zeros(tau.size)
    for j in range(n_joints):
        part = slice(j * count, (j + 1) * count)
        variance[part] = np.mean(residual[part] ** 2)
    root = np.sqrt(1.0 / (variance + 1e-12))[:, np.newaxis]
    weighted, right = rows * root, tau * root.ravel()
    covariance = np.linalg.inv(weighted.T @ weighted)
    values = covariance @ (weighted.T @ right)
    return values, 100.0 * np.sqrt(np.diag(covariance)) / np.abs(values)


def unweighted_deviations(rows: np.ndarray, tau: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Relative standard deviations without weights, which it reports beside [%]."""
    square = np.linalg.norm(tau - rows @ base) ** 2 / (rows.shape[0] - base.size)
    covariance = square * np.linalg.inv(rows.T @ rows)
    return np.asarray(100.0 * np.sqrt(np.diag(covariance)) / np.abs(base))


def dense_weights(rows: np.ndarray, tau: np.ndarray, base: np.ndarray, n: int) -> np.ndarray:
    """
    Weigh as its function ``weigthed_least_squares`` does, by a (rows, rows) matrix of weights.

    It takes a pseudo-inverse of the weighted rows for every joint.
    """
    count = tau.size // n
    weights = np.zeros((tau.size, tau.size))
    residual = tau - rows @ base
    for j in range(n):
        part = slice(j * count, (j + 1) * count)
        sigma = np.linalg.norm(residual[part]) / (count - base.size)
        for i in range(part.start, part.stop):
            weights[i, i] = 1.0 / sigma
        base = np.matmul(np.linalg.pinv(np.matmul(weights, rows)), np.matmul(weights, tau))
    return base
