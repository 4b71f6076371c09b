# SPDX-License-Identifier: Apache-2.0
"""
Sets of parameters for domain randomisation, of arms and of servos.

A set of an arm has what descriptions of robots hold: the bodies of links with all that is fixed to
them, rotor inertias, and damping and friction that stand for what they do not hold.  Sets are
drawn in `estimation.cone_sets` from the inflated covariance of the result; what a model lacks is
not in them, so that the residual of each joint belongs beside them, as noise of the effort.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
import io
from textwrap import wrap
from typing import Any

import numpy as np
import pinocchio as pin

from ..errors import IdentificationError, one_of
from ..estimation.cone_sets import drawn_sets, PhysicalCone
from ..figures.figure import templates
from ..model.consistency import inertia_at_com
from ..model.parameters import body_links, ParameterSet
from ..options.document import dump, plain
from ..regressor import ModelSettings
from ..results.exported_files import coverage_sentences, ExportedFiles, ISAACLAB
from .joint_dynamics import DAMPING, FRICTION, held_sets

HELD = ISAACLAB
"""The file that has what a set has."""

JUDGED = 100
"""Sets of which the coverage is measured."""

JOINT_VALUES = {'armature': ('Ia',), 'damping': DAMPING, 'friction': FRICTION}
"""Values of a joint in a set, and the symbols of what they are the sum of."""


def file_sets(
    standard: ParameterSet, model: ModelSettings, files: ExportedFiles, count: int = JUDGED
) -> np.ndarray | None:
    """
    Draw sets as they leave, (count, p), the same ones in every run.

    Parameters
    ----------
    standard:
        The estimate.
    model:
        Of the result.
    files:
        Have the covariance, and the friction that was fitted for files.
    count:
        Number of sets.

    Returns
    -------
    ndarray or None
        None where nothing is known of the spread, or the estimate is no physical robot.

    """
    cone = PhysicalCone.around(standard, model)
    if files.spread is None or cone is None:
        return None
    random = np.random.default_rng(0)
    sets = drawn_sets(cone, standard.values, files.spread.covariance, count, random)
    return held_sets(sets, standard, files.dynamics_of(HELD), HELD)


@dataclass(frozen=True)
class ArmSets:
    """
    Sets of parameters of an arm.

    Attributes
    ----------
    robot:
        Name of the robot.
    joints, links:
        Names of the n joints and of the k links that have bodies.
    mass:
        (m, k) [kg].
    center_of_mass:
        (m, k, 3) in the frames of the links [m].
    inertia:
        (m, k, 3, 3) at the centres of mass, along the frames of the links [kg m^2].
    armature, damping, friction:
        (m, n) rotor inertia, viscous and Coulomb friction [kg m^2, N m s/rad, N m; kg, N s/m, N
        for prismatic joints].
    files:
        Noise and coverage of the sets.
    coupled:
        Joints of coupled drives, which are not in the sets.

    """

    robot: str
    joints: tuple[str, ...]
    links: tuple[str, ...]
    mass: np.ndarray
    center_of_mass: np.ndarray
    inertia: np.ndarray
    armature: np.ndarray
    damping: np.ndarray
    friction: np.ndarray
    files: ExportedFiles
    coupled: tuple[str, ...] = ()

    @classmethod
    def drawn(cls, result: Any, count: int) -> ArmSets:
        """
        Draw sets of a result.

        Raises
        ------
        IdentificationError
            where nothing is known of the spread, or the result is no physical robot.

        """
        files, standard = result.files, result.standard
        if files is None or files.spread is None:
            raise IdentificationError(
                'the result has no covariance that sets of parameters could be drawn from',
                remedy='identify again with this version; closed loops, elastic joints and '
                'energy equations have none',
            )
        values = file_sets(standard, result.settings.model, files, count)
        if values is None:
            raise IdentificationError(
                'sets are not drawn around bodies or drives that cannot exist',
                remedy='identify with estimation.method: physical',
            )
        layout = standard.layout
        links, joints = body_links(layout), result.robot.joints
        bodies = np.stack([values[:, layout.slice_of(link)] for link in links], axis=1)

        def of_joints(symbols: Sequence[str]) -> np.ndarray:
            names = [[f'{joint}.{symbol}' for symbol in symbols] for joint in joints]
            known = [[layout.index(name) for name in own if name in layout] for own in names]
            return np.stack([values[:, own].sum(axis=1) for own in known], axis=1)

        return cls(
            result.robot.name,
            joints,
            links,
            bodies[..., 0],
            bodies[..., 1:4] / bodies[..., :1],
            np.array([[inertia_at_com(body) for body in each] for each in bodies]),
            files=files,
            coupled=tuple(drive.motor for drive in result.settings.model.coupled_drives),
            **{name: of_joints(symbols) for name, symbols in JOINT_VALUES.items()},
        )

    @cached_property
    def noise(self) -> np.ndarray:
        """(n,) residual of each joint, as noise of its effort [N m or N]."""
        assert self.files.spread is not None
        return np.array([self.files.spread.noise.get(joint, 0.0) for joint in self.joints])

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences on what the sets are and cover."""
        assert self.files.spread is not None
        inflation = self.files.spread.inflation
        return (
            f'standard deviations are inflated {inflation:.3g} times'
            if inflation > 1.0
            else 'standard deviations are not inflated: there is one part of the recordings alone',
            *coverage_sentences(self.files),
            *(f'the coupled drive of {joint} is not in the sets' for joint in self.coupled),
        )

    def to_document(self) -> dict[str, Any]:
        """Return the sets as plain values."""
        return {
            'robot': self.robot,
            'noise': dict(zip(self.joints, self.noise, strict=True)),
            'coverage': [
                {'sources': each.sources, **asdict(each.coverage), 'joints': each.covered}
                for each in self.files.recordings
                if each.coverage is not None
            ],
            'sets': [self._set(number) for number in range(len(self.mass))],
        }

    def _set(self, number: int) -> dict[str, Any]:
        links = {
            link: {
                'mass': self.mass[number, k],
                'center_of_mass': self.center_of_mass[number, k],
                'inertia': self.inertia[number, k],
            }
            for k, link in enumerate(self.links)
        }
        joints = {
            joint: {name: getattr(self, name)[number, j] for name in JOINT_VALUES}
            for j, joint in enumerate(self.joints)
        }
        return {'links': links, 'joints': joints}

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return the sets as arrays by their names."""
        names = ('mass', 'center_of_mass', 'inertia', *JOINT_VALUES, 'noise')
        return {
            'joints': np.array(self.joints),
            'links': np.array(self.links),
            **{name: getattr(self, name) for name in names},
            'remarks': np.array(self.remarks),
        }


def sets_yaml(sets: ArmSets) -> str:
    """Return sets, noise and coverage as YAML."""
    return dump(plain(sets.to_document()))


def sets_npz(sets: ArmSets) -> bytes:
    """Return sets, noise and remarks as an npz file, arrays by their names."""
    stream = io.BytesIO()
    np.savez_compressed(stream, **sets.arrays())  # type: ignore[arg-type]
    return stream.getvalue()


def isaaclab_sets(sets: ArmSets) -> str:
    """
    Return a Python file with the sets, and an event of Isaac Lab that gives them to environments.

    By the setters of `isaaclab.assets.Articulation` of Isaac Lab 3, and before by the views of
    PhysX, as `isaaclab.envs.mdp.events` uses both.
    """
    inertia = sets.inertia.reshape(*sets.mass.shape, 9)
    return _event(sets, 'Isaac Lab', 'isaaclab_sets.py.j2', {'INERTIA': inertia})


def mjlab_sets(sets: ArmSets) -> str:
    """
    Return a Python file with the sets, and an event of mjlab that gives them to environments.

    Its fields are those of MuJoCo's model, as `mjlab.envs.mdp.dr` of mjlab 1.6 sets them.  Raises
    IdentificationError for coupled drives.
    """
    if sets.coupled:
        raise IdentificationError(
            f'the coupled drive of {one_of(sets.coupled)} is a tendon in MJCF, whose share of the '
            'armature the sets have in the joints',
            remedy='write the sets as npz, and take ratio^2 of the tendon off',
        )
    moments, axes = np.linalg.eigh(sets.inertia)
    axes[..., 2] *= np.linalg.det(axes)[..., None]
    turns = [[pin.Quaternion(each).coeffs() for each in row] for row in axes]
    quaternions = np.roll(np.array(turns), 1, axis=-1)  # w first
    values = {'MOMENTS': moments, 'AXES': quaternions}
    return _event(sets, 'mjlab', 'mjlab_sets.py.j2', values)


def _event(sets: ArmSets, simulator: str, template: str, further: Mapping[str, np.ndarray]) -> str:
    """Return a file of an event; ``further`` has the bodies' inertias by their names."""
    arrays = {'MASS': sets.mass, 'CENTER_OF_MASS': sets.center_of_mass, **further}
    arrays |= {name.upper(): getattr(sets, name) for name in JOINT_VALUES}
    return (
        templates(autoescape=False)
        .get_template(template)
        .render(
            robot=sets.robot,
            simulator=simulator,
            remarks=[line for remark in sets.remarks for line in wrap(remark, 97)],
            links=repr(sets.links),
            joints=repr(sets.joints),
            noise=repr(tuple(map(float, _rounded(sets.noise)))),
            arrays={name: _rounded(values) for name, values in arrays.items()},
        )
    )


def _rounded(values: np.ndarray) -> Any:
    """Return lists of numbers of nine digits, which bodies stay bodies with."""
    digits = np.vectorize(lambda value: float(f'{value:.9g}'))
    return digits(values).tolist()
