# SPDX-License-Identifier: Apache-2.0
"""
Machine code of the inverse dynamics regressor's rows.

The formulas are those of `rigid` and `friction`, written out joint by joint for blocks of
`BLOCK` samples.  A block's quantities are vectors of consecutive samples: component c of a motion
has places ``c BLOCK`` to ``(c + 1) BLOCK - 1``.  So every innermost loop runs over contiguous
numbers, which the compiler turns into vector instructions, and what is worked on stays in a core's
first two caches.  Slices are made outside of the innermost loops: each costs some nanoseconds.
The robot is data (`KernelData`): one machine code serves all robots.

A motion is a spatial vector (w, l) in the link's frame, as in `rigid`.
"""

from __future__ import annotations

from numba import boolean, float64, int64
import numpy as np

from ..compiled import compiled, constant

BLOCK = 72
"""Samples of a block; nine lines of a cache, since a power of two would use few of its sets."""

TILE = 8
"""Dense rows that are written at once."""


@compiled()
def place_frame(
    coefficients: np.ndarray, one: np.ndarray, other: np.ndarray, frame: np.ndarray, count: int
) -> None:
    """Combine two functions of a joint's position into rotation (9, by rows) and translation."""
    for c in range(12):
        still, first, second = coefficients[c, 0], coefficients[c, 1], coefficients[c, 2]
        for t in range(count):
            frame[c * BLOCK + t] = still + first * one[t] + second * other[t]


@compiled()
def transform(parent: np.ndarray, frame: np.ndarray, motion: np.ndarray, count: int) -> None:
    """Take a motion of the parent's link into a joint's frame: E w, E (l + w x r)."""
    for t in range(count):
        wx, wy, wz = parent[t], parent[BLOCK + t], parent[2 * BLOCK + t]
        lx, ly, lz = parent[3 * BLOCK + t], parent[4 * BLOCK + t], parent[5 * BLOCK + t]
        xx, xy, xz = frame[t], frame[BLOCK + t], frame[2 * BLOCK + t]
        yx, yy, yz = frame[3 * BLOCK + t], frame[4 * BLOCK + t], frame[5 * BLOCK + t]
        zx, zy, zz = frame[6 * BLOCK + t], frame[7 * BLOCK + t], frame[8 * BLOCK + t]
        rx, ry, rz = frame[9 * BLOCK + t], frame[10 * BLOCK + t], frame[11 * BLOCK + t]
        lx = lx + wy * rz - wz * ry
        ly = ly + wz * rx - wx * rz
        lz = lz + wx * ry - wy * rx
        motion[t] = xx * wx + xy * wy + xz * wz
        motion[BLOCK + t] = yx * wx + yy * wy + yz * wz
        motion[2 * BLOCK + t] = zx * wx + zy * wy + zz * wz
        motion[3 * BLOCK + t] = xx * lx + xy * ly + xz * lz
        motion[4 * BLOCK + t] = yx * lx + yy * ly + yz * lz
        motion[5 * BLOCK + t] = zx * lx + zy * ly + zz * lz


@compiled()
def add_joint(
    velocity: np.ndarray,
    acceleration: np.ndarray,
    axis: np.ndarray,
    dq: np.ndarray,
    ddq: np.ndarray,
    count: int,
) -> None:
    """Add a joint's own motion to its parent's as seen in its frame; ``axis`` is a unit motion."""
    nx, ny, nz, ux, uy, uz = axis[0], axis[1], axis[2], axis[3], axis[4], axis[5]
    for t in range(count):
        wx, wy, wz = velocity[t], velocity[BLOCK + t], velocity[2 * BLOCK + t]
        lx, ly, lz = velocity[3 * BLOCK + t], velocity[4 * BLOCK + t], velocity[5 * BLOCK + t]
        v, a = dq[t], ddq[t]
        # (w, l) x (n, u) = (w x n, l x n + w x u)
        acceleration[t] += nx * a + (wy * nz - wz * ny) * v
        acceleration[BLOCK + t] += ny * a + (wz * nx - wx * nz) * v
        acceleration[2 * BLOCK + t] += nz * a + (wx * ny - wy * nx) * v
        acceleration[3 * BLOCK + t] += ux * a + (ly * nz - lz * ny + wy * uz - wz * uy) * v
        acceleration[4 * BLOCK + t] += uy * a + (lz * nx - lx * nz + wz * ux - wx * uz) * v
        acceleration[5 * BLOCK + t] += uz * a + (lx * ny - ly * nx + wx * uy - wy * ux) * v
        velocity[t] = wx + nx * v
        velocity[BLOCK + t] = wy + ny * v
        velocity[2 * BLOCK + t] = wz + nz * v
        velocity[3 * BLOCK + t] = lx + ux * v
        velocity[4 * BLOCK + t] = ly + uy * v
        velocity[5 * BLOCK + t] = lz + uz * v


@compiled()
def set_factors(
    velocity: np.ndarray, acceleration: np.ndarray, factors: np.ndarray, count: int
) -> None:
    """Write a link's 18 factors: acceleration of the origin, [A x] + [W x]^2, A, products of W."""
    for t in range(count):
        x, y, z = velocity[t], velocity[BLOCK + t], velocity[2 * BLOCK + t]
        vx, vy, vz = velocity[3 * BLOCK + t], velocity[4 * BLOCK + t], velocity[5 * BLOCK + t]
        ax, ay, az = acceleration[t], acceleration[BLOCK + t], acceleration[2 * BLOCK + t]
        xx, yy, zz, xy, xz, yz = x * x, y * y, z * z, x * y, x * z, y * z
        factors[t] = acceleration[3 * BLOCK + t] + y * vz - z * vy
        factors[BLOCK + t] = acceleration[4 * BLOCK + t] + z * vx - x * vz
        factors[2 * BLOCK + t] = acceleration[5 * BLOCK + t] + x * vy - y * vx
        factors[3 * BLOCK + t] = -yy - zz
        factors[4 * BLOCK + t] = xy - az
        factors[5 * BLOCK + t] = xz + ay
        factors[6 * BLOCK + t] = xy + az
        factors[7 * BLOCK + t] = -xx - zz
        factors[8 * BLOCK + t] = yz - ax
        factors[9 * BLOCK + t] = xz - ay
        factors[10 * BLOCK + t] = yz + ax
        factors[11 * BLOCK + t] = -xx - yy
        factors[12 * BLOCK + t] = ax
        factors[13 * BLOCK + t] = ay
        factors[14 * BLOCK + t] = az
        factors[15 * BLOCK + t] = xy
        factors[16 * BLOCK + t] = xz
        factors[17 * BLOCK + t] = yz


@compiled()
def set_inertial(unit: np.ndarray, factors: np.ndarray, entries: np.ndarray, count: int) -> None:
    """Write the ten entries of a link in the row of a joint, from that joint's unit motion."""
    for t in range(count):
        wx, wy, wz = unit[t], unit[BLOCK + t], unit[2 * BLOCK + t]
        lx, ly, lz = unit[3 * BLOCK + t], unit[4 * BLOCK + t], unit[5 * BLOCK + t]
        ox, oy, oz = factors[t], factors[BLOCK + t], factors[2 * BLOCK + t]
        xx, xy, xz = factors[3 * BLOCK + t], factors[4 * BLOCK + t], factors[5 * BLOCK + t]
        yx, yy, yz = factors[6 * BLOCK + t], factors[7 * BLOCK + t], factors[8 * BLOCK + t]
        zx, zy, zz = factors[9 * BLOCK + t], factors[10 * BLOCK + t], factors[11 * BLOCK + t]
        ax, ay, az = factors[12 * BLOCK + t], factors[13 * BLOCK + t], factors[14 * BLOCK + t]
        pxy, pxz, pyz = factors[15 * BLOCK + t], factors[16 * BLOCK + t], factors[17 * BLOCK + t]
        entries[t] = ox * lx + oy * ly + oz * lz
        entries[BLOCK + t] = oy * wz - oz * wy + xx * lx + yx * ly + zx * lz
        entries[2 * BLOCK + t] = oz * wx - ox * wz + xy * lx + yy * ly + zy * lz
        entries[3 * BLOCK + t] = ox * wy - oy * wx + xz * lx + yz * ly + zz * lz
        entries[4 * BLOCK + t] = ax * wx + pxz * wy - pxy * wz
        entries[5 * BLOCK + t] = zy * wy - zx * wx + (xx - yy) * wz
        entries[6 * BLOCK + t] = ay * wy - pyz * wx + pxy * wz
        entries[7 * BLOCK + t] = yx * wx + (zz - xx) * wy - yz * wz
        entries[8 * BLOCK + t] = (yy - zz) * wx - xy * wy + xz * wz
        entries[9 * BLOCK + t] = pyz * wx - pxz * wy + az * wz


@compiled()
def write_rows(
    entries: np.ndarray, places: np.ndarray, out: np.ndarray, start: int, count: int
) -> None:
    """Write whole rows: zeros, then entries, a few rows at once that stay in the first cache."""
    for first in range(0, count, TILE):
        size = min(TILE, count - first)
        rows = out[start + first : start + first + size]
        rows[:] = 0.0
        for k in range(places.size):
            place = places[k]
            for t in range(size):
                rows[t, place] = entries[k, first + t]


@compiled()
def write_entries(
    entries: np.ndarray, places: np.ndarray, out: np.ndarray, start: int, count: int
) -> None:
    """Write the entries that have a place, each to its own row of the output."""
    for k in range(places.size):
        if places[k] < 0:
            continue
        entry, target = entries[k], out[places[k], start : start + count]
        for t in range(count):
            target[t] = entry[t]


@compiled(
    constant(int64, 2),
    constant(float64, 3),
    constant(float64, 2),
    constant(float64, 1),
    constant(int64, 2),
    constant(int64, 1),
    constant(float64, 1),
    constant(int64, 1),
    constant(float64, 2),
    float64[:, ::1],
    int64,
    boolean,
)
def evaluate(
    joints: np.ndarray,
    frames: np.ndarray,
    axes: np.ndarray,
    gravity: np.ndarray,
    sums: np.ndarray,
    functions: np.ndarray,
    weights: np.ndarray,
    places: np.ndarray,
    states: np.ndarray,
    out: np.ndarray,
    first: int,
    dense: bool,
) -> None:
    """
    Write the rows of some of a motion's samples.

    Parameters
    ----------
    joints, frames, axes, gravity, sums, functions, weights, places, dense:
        As in `KernelData`.
    states:
        (f, m) functions of the state.
    out:
        Dense: (M, n p) numbers of M >= m samples.  Else: (K, M) entries.
    first:
        Place of the first of the m samples among the M.

    """
    n, m = joints.shape[0], states.shape[1]
    # velocity, acceleration and unit motions of the base and of each link
    motions = np.empty((n + 1, 2 + joints[:, 1].max(), 6 * BLOCK))
    motions[0] = 0.0
    for c in range(3):
        motions[0, 1, (3 + c) * BLOCK : (4 + c) * BLOCK] = -gravity[c]
    frame, factors = np.empty(12 * BLOCK), np.empty(18 * BLOCK)
    entries = np.empty((places.size, BLOCK))
    n_inertial = places.size - sums.shape[0]
    inertial = entries[:n_inertial].reshape(-1, 10 * BLOCK)
    for begin in range(0, m, BLOCK):
        end = min(begin + BLOCK, m)
        count, start = end - begin, first + begin
        pair = 0
        for i in range(n):
            parent, known, own = motions[joints[i, 0]], joints[i, 1], motions[i + 1]
            one, other = states[joints[i, 2], begin:end], states[joints[i, 3], begin:end]
            place_frame(frames[i], one, other, frame, count)
            for k in range(1 + known):
                transform(parent[k], frame, own[k], count)
            dq, ddq = states[joints[i, 4], begin:end], states[joints[i, 5], begin:end]
            add_joint(own[0], own[1], axes[i], dq, ddq, count)
            for c in range(6):
                own[1 + known, c * BLOCK : (c + 1) * BLOCK] = axes[i, c]
            if joints[i, 6]:
                set_factors(own[0], own[1], factors, count)
                for k in range(known):
                    set_inertial(own[2 + k], factors, inertial[pair + k], count)
            pair += known
        for i in range(sums.shape[0]):
            entry = entries[n_inertial + i]
            entry[:] = 0.0
            for k in range(sums[i, 0], sums[i, 1]):
                weight, function = weights[k], states[functions[k], begin:end]
                for t in range(count):
                    entry[t] += weight * function[t]
        if dense:
            write_rows(entries, places, out, start, count)
        else:
            write_entries(entries, places, out, start, count)
