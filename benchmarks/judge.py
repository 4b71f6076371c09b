# SPDX-License-Identifier: Apache-2.0
"""Judges results by the files that they write, without any of the package's own figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lxml import etree
import mujoco
import numpy as np
import pinocchio as pin
from robot_identification.data.recording import Recording
from scipy.signal import butter, sosfiltfilt

ORDER = 4
"""Of the low-pass filter in each of its two passes."""

LIGHTEST, HEAVIEST, TOTAL = 0.4, 2.5, 0.15
"""Plausible: each link's mass as a share of the maker's, and the total's largest difference."""


_EDGE = 0.3
"""Seconds at both ends where filters know one side only."""


@dataclass(frozen=True)
class Errors:
    """
    Relative errors of predicted efforts, both low-passed.

    Attributes
    ----------
    joints:
        (n,) of each joint [%].
    all:
        Over all joints [%].

    """

    joints: np.ndarray
    all: float


def prediction_errors(file: Path, cutoff: float) -> Errors:
    """
    Judge a table of predictions: 100 |measured - predicted| / |measured|.

    Parameters
    ----------
    file:
        CSV with ``time``, ``<joint>.measured`` and ``<joint>.predicted``; rows with an empty cell
        are interpolated for the filter and then do not count.
    cutoff:
        Of a Butterworth low-pass that runs forward and backward over efforts at even times [Hz].

    """
    table = np.genfromtxt(file, delimiter=',', skip_header=1)
    time, measured, predicted = table[:, 0], table[:, 1::2], table[:, 2::2]
    known = np.isfinite(predicted).all(axis=1)
    rate = 1.0 / np.median(np.diff(time))
    even = np.arange(time[0], time[-1], 1.0 / rate)
    counts = np.interp(even, time, known.astype(float)) > 0.999
    smooth = butter(ORDER, cutoff, fs=rate, output='sos')

    def low_passed(efforts: np.ndarray) -> np.ndarray:
        columns = [np.interp(even, time[known], column[known]) for column in efforts.T]
        return np.asarray(sosfiltfilt(smooth, np.array(columns))[:, counts])

    effort = low_passed(measured)
    miss = effort - low_passed(predicted)
    joints = np.linalg.norm(miss, axis=1) / np.linalg.norm(effort, axis=1)
    return Errors(100.0 * joints, float(100.0 * np.linalg.norm(miss) / np.linalg.norm(effort)))


def urdf_errors(urdf: str, recording: Recording, joints: Sequence[str], cutoff: float) -> Errors:
    """
    Judge a URDF alone: Pinocchio's inverse dynamics of its text, with its ``<dynamics>``.

    Dry friction takes the sign of the velocity; gravity is along -z.

    Parameters
    ----------
    urdf:
        The text.
    recording:
        Motion and efforts at the joints.
    joints:
        Those that are recorded, in the order of the data; others are held at 0.
    cutoff:
        Of a Butterworth low-pass that runs forward and backward over motion, measured and
        predicted efforts at even times [Hz].

    """
    time = recording.time
    rate = 1.0 / np.median(np.diff(time))
    even = np.arange(time[0], time[-1], 1.0 / rate)
    smooth = butter(ORDER, cutoff, fs=rate, output='sos')

    def low_passed(signals: np.ndarray) -> np.ndarray:
        columns = np.array([np.interp(even, time, column) for column in signals.T])
        return np.asarray(sosfiltfilt(smooth, columns).T)

    q, effort = low_passed(recording.position), low_passed(recording.effort)
    known = recording.velocity
    v = np.gradient(q, 1.0 / rate, axis=0) if known is None else low_passed(known)
    a = np.gradient(v, 1.0 / rate, axis=0)
    predicted = sosfiltfilt(smooth, _urdf_efforts(urdf, joints, q, v, a), axis=0)
    edge = round(_EDGE * rate)
    miss, effort = ((x[edge : len(x) - edge]).T for x in (effort - predicted, effort))
    each = np.linalg.norm(miss, axis=1) / np.linalg.norm(effort, axis=1)
    return Errors(100.0 * each, float(100.0 * np.linalg.norm(miss) / np.linalg.norm(effort)))


def _urdf_efforts(
    urdf: str, joints: Sequence[str], q: np.ndarray, v: np.ndarray, a: np.ndarray
) -> np.ndarray:
    """Return (m, n) efforts of a URDF's bodies and friction."""
    full = pin.buildModelFromXML(urdf)
    held = [full.getJointId(name) for name in list(full.names)[1:] if name not in joints]
    model = pin.buildReducedModel(full, held, pin.neutral(full))
    data = model.createData()
    order = [model.joints[model.getJointId(name)].idx_v for name in joints]
    drawn = {
        joint.get('name'): joint.find('dynamics')
        for joint in etree.fromstring(urdf.encode()).iterfind('joint')
    }
    damping, friction = (
        np.array([float(d.get(key, 0.0)) if (d := drawn[j]) is not None else 0.0 for j in joints])
        for key in ('damping', 'friction')
    )
    efforts = damping * v + friction * np.sign(v)
    start, states = pin.neutral(model), np.zeros((3, model.nv))
    for row, state in enumerate(zip(q, v, a, strict=True)):
        states[:, order] = state
        # continuous joints have a cosine and a sine
        at = pin.integrate(model, start, states[0])
        efforts[row] += pin.rnea(model, data, at, states[1], states[2])[order]
    return efforts


def physical(parameters: Sequence[np.ndarray]) -> bool:
    """
    Return whether bodies can have these parameters: their pseudo-inertias are positive definite.

    Parameters
    ----------
    parameters:
        (10,) m, m c and the inertia about the joint's frame (xx, xy, yy, xz, yz, zz), by link.

    """
    return all(_pseudo_inertia(body)[0] > 0.0 for body in parameters)


def plausible(masses: np.ndarray, makers: np.ndarray) -> bool:
    """Return whether (n,) masses are near the maker's [kg]."""
    share = masses / makers
    near = abs(masses.sum() / makers.sum() - 1.0) <= TOTAL
    return bool(near and share.min() >= LIGHTEST and share.max() <= HEAVIEST)


def loads(urdf: str) -> bool:
    """Return whether Pinocchio and MuJoCo take a URDF; meshes, which may not be here, left out."""
    try:
        pin.buildModelFromXML(urdf)
        mujoco.MjModel.from_xml_string(_without_shapes(urdf))
    except (ValueError, RuntimeError):
        return False
    return True


def deviation_ratio(values: np.ndarray, deviations: np.ndarray) -> float:
    """
    Return the spread of parameters over runs by their stated deviation, the median: 1 is honest.

    Parameters
    ----------
    values, deviations:
        (runs, parameters) estimates of the same parameters and their standard deviations.

    """
    spread = values.std(axis=0, ddof=1)
    stated = np.sqrt(np.mean(deviations**2, axis=0))
    certain = np.isfinite(stated) & (stated > 0.0)
    return float(np.median(spread[certain] / stated[certain]))


def _pseudo_inertia(body: np.ndarray) -> np.ndarray:
    """(4,) eigenvalues, in ascending order."""
    m, first = body[0], body[1:4]
    xx, xy, yy, xz, yz, zz = body[4:]
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    second = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    matrix = np.block([[second, first[:, None]], [first[None, :], np.array([[m]])]])
    return np.asarray(np.linalg.eigvalsh(matrix))


def _without_shapes(urdf: str) -> str:
    document = etree.fromstring(urdf.encode(), etree.XMLParser(resolve_entities=False))
    for shape in document.xpath('//visual | //collision'):
        shape.getparent().remove(shape)
    return str(etree.tostring(document, encoding='unicode'))
