# SPDX-License-Identifier: Apache-2.0
"""
Machine code of the inverse dynamics regressor's rows, and of their adjoint.

The formulas are those of `rigid` and `joint_terms`, written out joint by joint for blocks of
`BLOCK` samples.  A block's quantities are vectors of consecutive samples: component c of a motion
has places ``c BLOCK`` to ``(c + 1) BLOCK - 1``.  So every innermost loop runs over contiguous
numbers, which the compiler turns into vector instructions, and what is worked on stays in a core's
first two caches.  Slices are made outside of the innermost loops: each costs some nanoseconds.
The robot is data (`KernelData`): one machine code serves all robots.

A motion is a spatial vector (w, l) in the link's frame, as in `rigid`.
"""

from __future__ import annotations

import math

from numba import boolean, float64, int64
import numpy as np

from ..support.compiled import compiled, constant

BLOCK = 72
"""Samples of a block; nine lines of a cache, since a power of two would use few of its sets."""

TILE = 8
"""Dense rows that are written at once."""


@compiled()
def set_states(
    position: np.ndarray,
    velocity: np.ndarray,
    acceleration: np.ndarray,
    begin: int,
    count: int,
    states: np.ndarray,
) -> None:
    """
    Write the functions of the state that every joint has, in the order of `joint_terms`.

    ``states`` is (6 n + 1, BLOCK); of the other arrays, (m, n), ``count`` rows from ``begin`` on
    are taken.
    """
    n = position.shape[1]
    states[5 * n] = 1.0
    for j in range(n):
        for t in range(count):
            q = position[begin + t, j]
            states[j, t] = q
            states[n + j, t] = math.cos(q)
            states[2 * n + j, t] = math.sin(q)
        for t in range(count):
            dq = velocity[begin + t, j]
            states[3 * n + j, t] = dq
            states[5 * n + 1 + j, t] = np.sign(dq)
            states[4 * n + j, t] = acceleration[begin + t, j]


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
    """
    Write whole rows: zeros, then the entries that have a place.

    They are a few rows at once, which stay in the first cache.
    """
    whole = count - count % TILE
    for first in range(0, whole, TILE):
        rows = out[start + first : start + first + TILE]
        rows[:] = 0.0
        for k in range(places.size):
            place = places[k]
            if place < 0:
                continue
            for t in range(TILE):  # unrolled, as the number is known
                rows[t, place] = entries[k, first + t]
    out[start + whole : start + count] = 0.0
    for k in range(places.size):
        place = places[k]
        if place < 0:
            continue
        for t in range(whole, count):
            out[start + t, place] = entries[k, t]


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
    constant(int64, 2),
    constant(float64, 1),
    constant(float64, 2),
    constant(float64, 2),
    constant(float64, 2),
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
    merges: np.ndarray,
    multipliers: np.ndarray,
    position: np.ndarray,
    velocity: np.ndarray,
    acceleration: np.ndarray,
    further: np.ndarray,
    out: np.ndarray,
    first: int,
    dense: bool,
) -> None:
    """
    Write the rows of some of a motion's samples.

    Parameters
    ----------
    joints, frames, axes, gravity, sums, functions, weights, places, merges, multipliers, dense:
        As in `KernelData`.
    position, velocity, acceleration:
        (m, n) states.
    further:
        (·, m) functions of the state beside those that `set_states` writes.
    out:
        Dense: (M, n p) numbers of M >= m samples.  Else: (K, M) entries.
    first:
        Place of the first of the m samples among the M.

    """
    m, n = position.shape
    states = np.empty((6 * n + 1, BLOCK))
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
        set_states(position, velocity, acceleration, begin, count, states)
        pair = 0
        for i in range(n):
            parent, known, own = motions[joints[i, 0]], joints[i, 1], motions[i + 1]
            place_frame(frames[i], states[joints[i, 2]], states[joints[i, 3]], frame, count)
            for k in range(1 + known):
                transform(parent[k], frame, own[k], count)
            add_joint(own[0], own[1], axes[i], states[joints[i, 4]], states[joints[i, 5]], count)
            for c in range(6):
                own[1 + known, c * BLOCK : (c + 1) * BLOCK] = axes[i, c]
            if joints[i, 6]:
                set_factors(own[0], own[1], factors, count)
                for k in range(known):
                    set_inertial(own[2 + k], factors, inertial[pair + k], count)
            pair += known
        for i in range(merges.shape[0]):
            source, target = inertial[merges[i, 0]], inertial[merges[i, 1]]
            multiplier = multipliers[merges[i, 0]]
            if merges[i, 0] == merges[i, 1]:
                target *= multiplier
            else:
                target += multiplier * source
        for i in range(sums.shape[0]):
            entry = entries[n_inertial + i]
            entry[:] = 0.0
            for k in range(sums[i, 0], sums[i, 1]):
                weight, place = weights[k], functions[k]
                if place < states.shape[0]:
                    function = states[place, :count]
                else:
                    function = further[place - states.shape[0], begin:end]
                for t in range(count):
                    entry[t] += weight * function[t]
        if dense:
            write_rows(entries, places, out, start, count)
        else:
            write_entries(entries, places, out, start, count)


@compiled()
def multiply_inertia(
    values: np.ndarray, motion: np.ndarray, force: np.ndarray, count: int
) -> None:
    """Write the spatial inertia of ten parameters times a motion, as a force (moment, force)."""
    for t in range(count):
        wx, wy, wz = motion[t], motion[BLOCK + t], motion[2 * BLOCK + t]
        lx, ly, lz = motion[3 * BLOCK + t], motion[4 * BLOCK + t], motion[5 * BLOCK + t]
        m, x, y, z = values[t], values[BLOCK + t], values[2 * BLOCK + t], values[3 * BLOCK + t]
        xx, xy, yy = values[4 * BLOCK + t], values[5 * BLOCK + t], values[6 * BLOCK + t]
        xz, yz, zz = values[7 * BLOCK + t], values[8 * BLOCK + t], values[9 * BLOCK + t]
        force[t] = xx * wx + xy * wy + xz * wz + y * lz - z * ly
        force[BLOCK + t] = xy * wx + yy * wy + yz * wz + z * lx - x * lz
        force[2 * BLOCK + t] = xz * wx + yz * wy + zz * wz + x * ly - y * lx
        force[3 * BLOCK + t] = m * lx + wy * z - wz * y
        force[4 * BLOCK + t] = m * ly + wz * x - wx * z
        force[5 * BLOCK + t] = m * lz + wx * y - wy * x


@compiled()
def cross_motion(one: np.ndarray, other: np.ndarray, out: np.ndarray, count: int) -> None:
    """Write the cross product of two motions, (w, l) x (n, u) = (w x n, l x n + w x u)."""
    for t in range(count):
        wx, wy, wz = one[t], one[BLOCK + t], one[2 * BLOCK + t]
        lx, ly, lz = one[3 * BLOCK + t], one[4 * BLOCK + t], one[5 * BLOCK + t]
        nx, ny, nz = other[t], other[BLOCK + t], other[2 * BLOCK + t]
        ux, uy, uz = other[3 * BLOCK + t], other[4 * BLOCK + t], other[5 * BLOCK + t]
        out[t] = wy * nz - wz * ny
        out[BLOCK + t] = wz * nx - wx * nz
        out[2 * BLOCK + t] = wx * ny - wy * nx
        out[3 * BLOCK + t] = ly * nz - lz * ny + wy * uz - wz * uy
        out[4 * BLOCK + t] = lz * nx - lx * nz + wz * ux - wx * uz
        out[5 * BLOCK + t] = lx * ny - ly * nx + wx * uy - wy * ux


@compiled()
def add_cross_force(
    motion: np.ndarray, force: np.ndarray, sign: float, out: np.ndarray, count: int
) -> None:
    """Add the dual cross product, (w, l) x* (n, f) = (w x n + l x f, w x f), times a sign."""
    for t in range(count):
        wx, wy, wz = sign * motion[t], sign * motion[BLOCK + t], sign * motion[2 * BLOCK + t]
        lx, ly = sign * motion[3 * BLOCK + t], sign * motion[4 * BLOCK + t]
        lz = sign * motion[5 * BLOCK + t]
        nx, ny, nz = force[t], force[BLOCK + t], force[2 * BLOCK + t]
        fx, fy, fz = force[3 * BLOCK + t], force[4 * BLOCK + t], force[5 * BLOCK + t]
        out[t] += wy * nz - wz * ny + ly * fz - lz * fy
        out[BLOCK + t] += wz * nx - wx * nz + lz * fx - lx * fz
        out[2 * BLOCK + t] += wx * ny - wy * nx + lx * fy - ly * fx
        out[3 * BLOCK + t] += wy * fz - wz * fy
        out[4 * BLOCK + t] += wz * fx - wx * fz
        out[5 * BLOCK + t] += wx * fy - wy * fx


@compiled()
def transform_back(force: np.ndarray, frame: np.ndarray, parent: np.ndarray, count: int) -> None:
    """Add a force in a joint's frame to one in its parent's: the transpose of `transform`."""
    for t in range(count):
        xx, xy, xz = frame[t], frame[BLOCK + t], frame[2 * BLOCK + t]
        yx, yy, yz = frame[3 * BLOCK + t], frame[4 * BLOCK + t], frame[5 * BLOCK + t]
        zx, zy, zz = frame[6 * BLOCK + t], frame[7 * BLOCK + t], frame[8 * BLOCK + t]
        rx, ry, rz = frame[9 * BLOCK + t], frame[10 * BLOCK + t], frame[11 * BLOCK + t]
        nx, ny, nz = force[t], force[BLOCK + t], force[2 * BLOCK + t]
        gx, gy, gz = force[3 * BLOCK + t], force[4 * BLOCK + t], force[5 * BLOCK + t]
        fx = xx * gx + yx * gy + zx * gz
        fy = xy * gx + yy * gy + zy * gz
        fz = xz * gx + yz * gy + zz * gz
        parent[t] += xx * nx + yx * ny + zx * nz + ry * fz - rz * fy
        parent[BLOCK + t] += xy * nx + yy * ny + zy * nz + rz * fx - rx * fz
        parent[2 * BLOCK + t] += xz * nx + yz * ny + zz * nz + rx * fy - ry * fx
        parent[3 * BLOCK + t] += fx
        parent[4 * BLOCK + t] += fy
        parent[5 * BLOCK + t] += fz


@compiled()
def add_product(one: np.ndarray, other: np.ndarray, out: np.ndarray, count: int) -> None:
    """Add the product of a motion and a force to ``out``."""
    for c in range(6):
        for t in range(count):
            out[t] += one[c * BLOCK + t] * other[c * BLOCK + t]


@compiled(
    constant(int64, 2),
    constant(float64, 3),
    constant(float64, 2),
    constant(float64, 1),
    constant(int64, 1),
    constant(float64, 1),
    constant(float64, 2),
    constant(float64, 2),
    constant(float64, 2),
    constant(float64, 3),
    float64[:, :, ::1],
)
def pull_back(
    joints: np.ndarray,
    frames: np.ndarray,
    axes: np.ndarray,
    gravity: np.ndarray,
    rows: np.ndarray,
    multipliers: np.ndarray,
    position: np.ndarray,
    velocity: np.ndarray,
    acceleration: np.ndarray,
    by_rows: np.ndarray,
    out: np.ndarray,
) -> None:
    """
    Turn a gradient by the rigid bodies' entries into one by the motion.

    An entry of link i and joint k is linear in the unit motion s that joint k gives the link: with
    the gradient g by the ten entries taken for inertial parameters, their sum is s . (I(g) a +
    v x* I(g) v).  Its derivatives by s, a and v are forces, which go back up the tree as wrenches
    do.  Turning joint i takes a motion m in its frame to m - S x m dq, S being its unit motion.

    Parameters
    ----------
    joints, frames, axes, gravity:
        As in `KernelData`.
    rows, multipliers:
        (pairs,) column of the joint of each link and joint on its path (`carried_links`), and its
        speed by that of its column.
    position, velocity, acceleration:
        (m, n) states.
    by_rows:
        (m, columns, >= 10 n) gradient by the rows.
    out:
        (3, n, m) for the gradient by positions, velocities and accelerations, by column.

    """
    m, n = position.shape
    states = np.empty((6 * n + 1, BLOCK))
    out[:] = 0.0
    most = 2 + joints[:, 1].max()
    motions, adjoints = np.empty((n + 1, most, 6 * BLOCK)), np.empty((n + 1, most, 6 * BLOCK))
    motions[0] = 0.0
    for c in range(3):
        motions[0, 1, (3 + c) * BLOCK : (4 + c) * BLOCK] = -gravity[c]
    frame, arrived = np.empty((n, 12 * BLOCK)), np.empty((n, 6 * BLOCK))
    values, crossed, force = np.empty(10 * BLOCK), np.empty(6 * BLOCK), np.empty(6 * BLOCK)
    turned = np.empty(6 * BLOCK)
    for begin in range(0, m, BLOCK):
        end = min(begin + BLOCK, m)
        count = end - begin
        set_states(position, velocity, acceleration, begin, count, states)
        adjoints[:] = 0.0
        pair = 0
        for i in range(n):
            parent, known, own = motions[joints[i, 0]], joints[i, 1], motions[i + 1]
            place_frame(frames[i], states[joints[i, 2]], states[joints[i, 3]], frame[i], count)
            for k in range(1 + known):
                transform(parent[k], frame[i], own[k], count)
            arrived[i] = own[1]
            add_joint(own[0], own[1], axes[i], states[joints[i, 4]], states[joints[i, 5]], count)
            for c in range(6):
                own[1 + known, c * BLOCK : (c + 1) * BLOCK] = axes[i, c]
            column, adjoint = 10 * (joints[i, 4] - 3 * n), adjoints[i + 1]
            for k in range(known):
                multiplier = multipliers[pair + k]
                for t in range(count):
                    gradient = by_rows[begin + t, rows[pair + k]]
                    for c in range(10):
                        values[c * BLOCK + t] = multiplier * gradient[column + c]
                unit = own[2 + k]
                multiply_inertia(values, own[0], force, count)
                add_cross_force(own[0], force, 1.0, adjoint[2 + k], count)
                add_cross_force(unit, force, -1.0, adjoint[0], count)
                multiply_inertia(values, own[1], force, count)
                adjoint[2 + k] += force
                multiply_inertia(values, unit, force, count)
                adjoint[1] += force
                cross_motion(own[0], unit, crossed, count)
                multiply_inertia(values, crossed, force, count)
                adjoint[0] -= force
            pair += known
        for i in range(n - 1, -1, -1):
            known, own, adjoint = joints[i, 1], motions[i + 1], adjoints[i + 1]
            column = joints[i, 4] - 3 * n
            unit = own[1 + known]
            by_q, by_dq = out[0, column, begin:end], out[1, column, begin:end]
            by_ddq = out[2, column, begin:end]
            add_product(unit, adjoint[1], by_ddq, count)
            cross_motion(own[0], unit, crossed, count)
            add_product(crossed, adjoint[1], by_dq, count)
            add_product(unit, adjoint[0], by_dq, count)
            # the acceleration holds v x S dq
            turned[:] = 0.0
            add_cross_force(unit, adjoint[1], 1.0, turned, count)
            dq = states[joints[i, 4]]
            for c in range(6):
                for t in range(count):
                    adjoint[0, c * BLOCK + t] += turned[c * BLOCK + t] * dq[t]
            add_product(arrived[i], turned, by_q, count)
            for k in range(1 + known):
                if k != 1:
                    turned[:] = 0.0
                    add_cross_force(unit, adjoint[k], 1.0, turned, count)
                    add_product(own[k], turned, by_q, count)
            for k in range(1 + known):
                transform_back(adjoint[k], frame[i], adjoints[joints[i, 0], k], count)
