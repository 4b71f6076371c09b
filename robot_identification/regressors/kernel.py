# SPDX-License-Identifier: Apache-2.0
"""
The rows of an inverse dynamics regressor in machine code, for `LANES` samples at once.

The formulas are those of `rigid` and `state_functions`; here they are written out joint by joint.
All that is worked on for a few samples stays in the first two caches, the next link's motions and
a link's factors in registers.  The robot is data (`Program`), so that one machine code serves all.
"""

from __future__ import annotations

import numpy as np

from ..compiled import compiled
from ..lanes import LANES, Lanes, load, repeat, store, store_rows, stream, to_line
from .sines import sine_and_cosine_of_any

BEYOND = 1 << 20
"""Numbers of an output from which on it is written past the caches; 8 MB."""

_MOTION = 6 * LANES  # numbers of a spatial motion, (w, l) as in `rigid`


@compiled(inline=True)
def turning(k: np.ndarray, i: int, at: int, s: Lanes, c: Lanes) -> Lanes:
    """Entry of the rotation into a joint's frame: constant, cosine and sine part."""
    return k[i, at] + k[i, at + 1] * c + k[i, at + 2] * s


@compiled(inline=True)
def rotation(k: np.ndarray, i: int, s: Lanes, c: Lanes) -> tuple[Lanes, ...]:
    """Nine entries of the rotation into a joint's frame, row by row."""
    return (
        turning(k, i, 0, s, c),
        turning(k, i, 3, s, c),
        turning(k, i, 6, s, c),
        turning(k, i, 9, s, c),
        turning(k, i, 12, s, c),
        turning(k, i, 15, s, c),
        turning(k, i, 18, s, c),
        turning(k, i, 21, s, c),
        turning(k, i, 24, s, c),
    )


@compiled(inline=True)
def carried(
    motions: np.ndarray, at: int, E: tuple[Lanes, ...], r: tuple[Lanes, ...]
) -> tuple[Lanes, ...]:
    """Motion (w, l) at place ``at`` as seen in the next frame: E w, E (l + w x r)."""
    xx, xy, xz, yx, yy, yz, zx, zy, zz = E
    rx, ry, rz = r
    wx, wy, wz, lx, ly, lz = load_motion(motions, at)
    lx = lx + wy * rz - wz * ry
    ly = ly + wz * rx - wx * rz
    lz = lz + wx * ry - wy * rx
    return (
        xx * wx + xy * wy + xz * wz,
        yx * wx + yy * wy + yz * wz,
        zx * wx + zy * wy + zz * wz,
        xx * lx + xy * ly + xz * lz,
        yx * lx + yy * ly + yz * lz,
        zx * lx + zy * ly + zz * lz,
    )


@compiled(inline=True)
def load_motion(motions: np.ndarray, at: int) -> tuple[Lanes, ...]:
    """Six lanes from place ``at``."""
    return (
        load(motions, at),
        load(motions, at + LANES),
        load(motions, at + 2 * LANES),
        load(motions, at + 3 * LANES),
        load(motions, at + 4 * LANES),
        load(motions, at + 5 * LANES),
    )


@compiled(inline=True)
def store_motion(motions: np.ndarray, at: int, motion: tuple[Lanes, ...]) -> None:
    """Write six lanes from place ``at``."""
    store(motions, at, motion[0])
    store(motions, at + LANES, motion[1])
    store(motions, at + 2 * LANES, motion[2])
    store(motions, at + 3 * LANES, motion[3])
    store(motions, at + 4 * LANES, motion[4])
    store(motions, at + 5 * LANES, motion[5])


@compiled(inline=True)
def joined(
    velocity: tuple[Lanes, ...],
    acceleration: tuple[Lanes, ...],
    axis: tuple[float, ...],
    turns: bool,
    dq: Lanes,
    ddq: Lanes,
) -> tuple[tuple[Lanes, ...], ...]:
    """Velocity and acceleration of the link itself, from its parent's as seen in its frame."""
    wx, wy, wz, lx, ly, lz = velocity
    ax, ay, az, bx, by, bz = acceleration
    nx, ny, nz = axis
    # (w, l) x (n, 0) = (w x n, l x n);  (w, l) x (0, n) = (0, w x n)
    cx, cy, cz = (wy * nz - wz * ny) * dq, (wz * nx - wx * nz) * dq, (wx * ny - wy * nx) * dq
    if turns:
        bx = bx + (ly * nz - lz * ny) * dq
        by = by + (lz * nx - lx * nz) * dq
        bz = bz + (lx * ny - ly * nx) * dq
        ax, ay, az = ax + nx * ddq + cx, ay + ny * ddq + cy, az + nz * ddq + cz
        wx, wy, wz = wx + nx * dq, wy + ny * dq, wz + nz * dq
    else:
        bx, by, bz = bx + nx * ddq + cx, by + ny * ddq + cy, bz + nz * ddq + cz
        lx, ly, lz = lx + nx * dq, ly + ny * dq, lz + nz * dq
    return (wx, wy, wz, lx, ly, lz), (ax, ay, az, bx, by, bz)


@compiled(inline=True)
def factors(
    velocity: tuple[Lanes, ...], acceleration: tuple[Lanes, ...]
) -> tuple[tuple[Lanes, ...], ...]:
    """Return what unit motions are multiplied with: the different ones of `rigid`'s factors."""
    x, y, z, vx, vy, vz = velocity
    Ax, Ay, Az, bx, by, bz = acceleration
    xx, yy, zz, xy, xz, yz = x * x, y * y, z * z, x * y, x * z, y * z
    return (
        (bx + y * vz - z * vy, by + z * vx - x * vz, bz + x * vy - y * vx),
        (-yy - zz, xy - Az, xz + Ay, xy + Az, -xx - zz, yz - Ax, xz - Ay, yz + Ax, -xx - yy),
        (Ax, Ay, Az, xy, xz, yz, yy - zz, zz - xx, xx - yy),
    )


@compiled(inline=True)
def row(unit: tuple[Lanes, ...], link: tuple[tuple[Lanes, ...], ...]) -> tuple[Lanes, ...]:
    """Ten entries of a joint's row, from its unit motion and the factors of the link."""
    wx, wy, wz, lx, ly, lz = unit
    (ax, ay, az), (oxx, oxy, oxz, oyx, oyy, oyz, ozx, ozy, ozz), others = link
    Ax, Ay, Az, xy, xz, yz, dx, dy, dz = others
    return (
        ax * lx + ay * ly + az * lz,
        ay * wz - az * wy + oxx * lx + oyx * ly + ozx * lz,
        az * wx - ax * wz + oxy * lx + oyy * ly + ozy * lz,
        ax * wy - ay * wx + oxz * lx + oyz * ly + ozz * lz,
        Ax * wx + xz * wy - xy * wz,
        ozy * wy - ozx * wx + dz * wz,
        Ay * wy - yz * wx + xy * wz,
        oyx * wx + dy * wy - oyz * wz,
        dx * wx - oxy * wy + oxz * wz,
        yz * wx - xz * wy + Az * wz,
    )


@compiled(inline=True)
def store_wanted(
    out: np.ndarray, places: np.ndarray, pair: int, stride: int, at: int, values: tuple[Lanes, ...]
) -> None:
    """Write those of a row's ten entries that have a place."""
    if places[pair, 0] >= 0:
        store(out, places[pair, 0] * stride + at, values[0])
    if places[pair, 1] >= 0:
        store(out, places[pair, 1] * stride + at, values[1])
    if places[pair, 2] >= 0:
        store(out, places[pair, 2] * stride + at, values[2])
    if places[pair, 3] >= 0:
        store(out, places[pair, 3] * stride + at, values[3])
    if places[pair, 4] >= 0:
        store(out, places[pair, 4] * stride + at, values[4])
    if places[pair, 5] >= 0:
        store(out, places[pair, 5] * stride + at, values[5])
    if places[pair, 6] >= 0:
        store(out, places[pair, 6] * stride + at, values[6])
    if places[pair, 7] >= 0:
        store(out, places[pair, 7] * stride + at, values[7])
    if places[pair, 8] >= 0:
        store(out, places[pair, 8] * stride + at, values[8])
    if places[pair, 9] >= 0:
        store(out, places[pair, 9] * stride + at, values[9])


@compiled(inline=True)
def gather(
    states: np.ndarray,
    q: np.ndarray,
    dq: np.ndarray,
    ddq: np.ndarray,
    other: np.ndarray,
    start: int,
    n: int,
) -> None:
    """Lay the states side by side, `LANES` samples each, where the last of all repeats."""
    last = q.shape[0] - 1
    for t in range(LANES):
        sample = min(start + t, last)
        for j in range(n):
            states[j * LANES + t] = q[sample, j]
            states[(n + j) * LANES + t] = ddq[sample, j]
            states[(2 * n + j) * LANES + t] = dq[sample, j]
        for j in range(other.shape[1]):
            states[(4 * n + 1 + j) * LANES + t] = other[sample, j]


@compiled(inline=True)
def take_signs(states: np.ndarray, first: int, count: int, target: int) -> None:
    """Put the signs of ``count`` functions of the state, from ``first`` on, to ``target``."""
    for i in range(count * LANES):
        # becomes no branch, which half of the samples would take by surprise
        up = 1.0 if states[first * LANES + i] > 0.0 else 0.0
        down = 1.0 if states[first * LANES + i] < 0.0 else 0.0
        states[target * LANES + i] = up - down


@compiled(inline=True)
def move_on(
    links: np.ndarray,
    k: np.ndarray,
    i: int,
    states: np.ndarray,
    n: int,
    motions: np.ndarray,
    scratch: np.ndarray,
) -> tuple[tuple[Lanes, ...], ...]:
    """Find the motions of a link from its parent's; return its velocity and acceleration."""
    column, parent, own, known = links[i, 0], links[i, 1], links[i, 2], links[i, 3]
    turns = links[i, 4] > 0
    zero = repeat(0.0)
    sine, cosine, slide = zero, zero, zero
    if turns:
        sine, cosine = sine_and_cosine_of_any(states, column * LANES, scratch)
    else:
        slide = load(states, column * LANES)
    E = rotation(k, i, sine, cosine)
    r = (k[i, 27] + k[i, 33] * slide, k[i, 28] + k[i, 34] * slide, k[i, 29] + k[i, 35] * slide)
    axis = (k[i, 30], k[i, 31], k[i, 32])
    velocity, acceleration = joined(
        carried(motions, parent, E, r),
        carried(motions, parent + _MOTION, E, r),
        axis,
        turns,
        load(states, (2 * n + column) * LANES),
        load(states, (n + column) * LANES),
    )
    store_motion(motions, own, velocity)
    store_motion(motions, own + _MOTION, acceleration)
    for place in range(2 * _MOTION, known * _MOTION, _MOTION):
        store_motion(motions, own + place, carried(motions, parent + place, E, r))
    nx, ny, nz = repeat(k[i, 30]), repeat(k[i, 31]), repeat(k[i, 32])
    unit = (nx, ny, nz, zero, zero, zero) if turns else (zero, zero, zero, nx, ny, nz)
    store_motion(motions, own + known * _MOTION, unit)
    return velocity, acceleration


@compiled(inline=True)
def add_up(
    states: np.ndarray, sums: np.ndarray, entry: int, functions: np.ndarray, weights: np.ndarray
) -> Lanes:
    """Return a combination of functions of the state."""
    first, last = sums[entry, 1], sums[entry, 2]
    value = weights[first] * load(states, functions[first] * LANES)
    for i in range(first + 1, last):
        value = value + weights[i] * load(states, functions[i] * LANES)
    return value


@compiled(inline=True)
def take_speed_signs(
    states: np.ndarray, speeds: np.ndarray, functions: np.ndarray, weights: np.ndarray
) -> None:
    """Add the signs of speeds that are combinations of the joints'."""
    for speed in range(speeds.shape[0]):
        place = speeds[speed, 0]
        store(states, place * LANES, add_up(states, speeds, speed, functions, weights))
        take_signs(states, place, 1, place)


@compiled(inline=True)
def copy_rows(rows: np.ndarray, count: int, out: np.ndarray, at: int) -> None:
    """Copy to where it is not read soon: past the caches where the output is larger than these."""
    first = 0
    if out.size > BEYOND:
        first = min(to_line(out, at), count)
        for i in range(first):
            out[at + i] = rows[i]
        for _ in range((count - first) // LANES):
            stream(out, at + first, load(rows, first))
            first += LANES
    for _ in range((count - first) // LANES):
        store(out, at + first, load(rows, first))
        first += LANES
    for i in range(first, count):
        out[at + i] = rows[i]


@compiled(inline=True)
def copy_entries(entries: np.ndarray, count: int, out: np.ndarray, stride: int, at: int) -> None:
    """Copy entries of fewer samples than there are lanes."""
    for i in range(entries.size // LANES):
        for t in range(count):
            out[i * stride + at + t] = entries[i * LANES + t]


@compiled(
    'const i8[:, ::1]',
    'const f8[:, ::1]',
    'const i8[:, ::1]',
    'const i8[:, ::1]',
    'const i8[:, ::1]',
    'const i8[::1]',
    'const f8[::1]',
    'const f8[:, ::1]',
    'const f8[:, ::1]',
    'const f8[:, ::1]',
    'const f8[:, ::1]',
    'f8[::1]',
    'i8',
    'i8',
    'i8',
)
def evaluate(
    links: np.ndarray,
    constants: np.ndarray,
    places: np.ndarray,
    sums: np.ndarray,
    speeds: np.ndarray,
    functions: np.ndarray,
    weights: np.ndarray,
    q: np.ndarray,
    dq: np.ndarray,
    ddq: np.ndarray,
    other: np.ndarray,
    out: np.ndarray,
    dense: int,
    begin: int,
    end: int,
) -> None:
    """
    Write rows of a part of a motion.

    Parameters
    ----------
    links, constants, places, sums, speeds, functions, weights:
        As `Program` has them.
    q, dq, ddq:
        (m, n) states of the whole motion.
    other:
        (m, x) values of the functions that are not made here.
    out:
        Dense: m rows of the regressor's n p numbers, as one vector.  Else: K rows of m numbers.
    dense:
        Which of the two, 1 or 0.
    begin, end:
        The samples that are wanted.

    """
    m, n = q.shape
    size = out.size // m
    motions = np.empty(links[-1, 2] + (links[-1, 3] + 1) * _MOTION)
    states = np.empty((4 * n + 1 + other.shape[1] + speeds.shape[0]) * LANES)
    scratch = np.empty(2 * LANES)
    for t in range(LANES):
        states[4 * n * LANES + t] = 1.0
    image = np.zeros(size * LANES)  # what is zero for every motion stays from one to the next
    for c in range(9):
        store(motions, c * LANES, repeat(0.0))
    for c in range(3):
        store(motions, (9 + c) * LANES, repeat(-constants[n, c]))
    for start in range(begin, end, LANES):
        count = min(LANES, end - start)
        gather(states, q, dq, ddq, other, start, n)
        whole = count == LANES
        target, stride, at = (out, m, start) if whole else (image, LANES, 0)
        pair = 0
        for i in range(n):
            velocity, acceleration = move_on(links, constants, i, states, n, motions, scratch)
            first, last = links[i, 2] + 2 * _MOTION, links[i, 2] + (links[i, 3] + 1) * _MOTION
            if links[i, 5] == 0:
                pair += links[i, 3] - 1
                continue
            of_link = factors(velocity, acceleration)
            for unit in range(first, last, _MOTION):
                values = row(load_motion(motions, unit), of_link)
                if dense:
                    store_rows(image, places[pair, 0], size, values)
                else:
                    store_wanted(target, places, pair, stride, at, values)
                pair += 1
        if sums.size:
            take_signs(states, 2 * n, n, 3 * n)
            take_speed_signs(states, speeds, functions, weights)
        i = 0
        while i < sums.shape[0]:
            value = add_up(states, sums, i, functions, weights)
            if not dense:
                store(target, sums[i, 0] * stride + at, value)
            elif i + 3 < sums.shape[0] and sums[i + 3, 0] == sums[i, 0] + 3:
                # side by side, as the usual terms of a joint are
                second = add_up(states, sums, i + 1, functions, weights)
                third = add_up(states, sums, i + 2, functions, weights)
                fourth = add_up(states, sums, i + 3, functions, weights)
                store_rows(image, sums[i, 0], size, (value, second, third, fourth))
                i += 3
            else:
                store_rows(image, sums[i, 0], size, (value,))
            i += 1
        if dense:
            copy_rows(image, count * size, out, start * size)
        elif not whole:
            copy_entries(image, count, out, m, start)
