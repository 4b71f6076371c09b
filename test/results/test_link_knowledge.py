# SPDX-License-Identifier: Apache-2.0
"""Knowledge of links by their own deviations, against what efforts can tell."""

import numpy as np
import pytest
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.recording import Motion, Recording
from robot_identification.identification.pipeline import identify_sources
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings, prior
from robot_identification.results.link_knowledge import LinkKnowledge
from robot_identification.signals import SignalSettings
from robot_identification.verdicts.document import verdict_document
from robot_identification.verdicts.verdict import verdict

LINK = (
    '<link name="l{i}"><inertial><origin xyz="0.2 0.05 0.1"/><mass value="{mass}"/>'
    '<inertia ixx="0.03" iyy="0.05" izz="0.04" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    '<joint name="j{i}" type="{kind}"><parent link="{parent}"/><child link="l{i}"/>'
    '<origin xyz="{place} 0 0"/><axis xyz="{axis}"/>'
    '<limit lower="-3" upper="3" effort="99" velocity="5"/></joint>'
)

MODEL = ModelSettings(friction=('viscous', 'coulomb'), rotor_inertia=False)


def arm(*joints):
    """Return an arm of joints of a kind, with an axis."""
    text, parent = '', 'base'
    for i, (kind, axis) in enumerate(joints, 1):
        text += LINK.format(
            i=i, mass=4 - i, kind=kind, axis=axis, parent=parent, place=0.4 * (i > 1)
        )
        parent = f'l{i}'
    return Robot.from_urdf(f'<robot name="r"><link name="base"/>{text}</robot>')


def identified(robot, noise=0.02, size=0.5):
    rng = np.random.default_rng(0)
    time = np.arange(2000) / 100.0
    q, v, a = np.zeros((3, time.size, robot.n_joints))
    for k in range(1, 6):
        w, phase = 0.6 * k, rng.uniform(0.0, 6.3, robot.n_joints)
        angle, part = w * time[:, None] + phase, size / k
        q += part * np.sin(angle)
        v += part * w * np.cos(angle)
        a -= part * w**2 * np.sin(angle)
    true = prior(robot, MODEL).values * rng.uniform(0.9, 1.1)
    effort = (build(robot, MODEL).rows(Motion(q, v, a)) @ true).reshape(q.shape)
    effort += noise * effort.std(axis=0) * rng.standard_normal(q.shape)
    recording = Recording(time, q, effort, robot.joints)
    signals = SignalSettings(cutoff=10.0, decimate_to=25.0)
    return identify_sources(
        IdentificationProblem(robot, model=MODEL, signals=signals), [recording]
    )


Z, Y = '0 0 1', '0 1 0'


@pytest.mark.parametrize(
    ('joints', 'kinds'),
    [
        # a vertical axis does not feel the mass that it turns; two links below share theirs
        ((('revolute', Z), ('revolute', Y), ('revolute', Y)), ('prior', 'known', 'partly')),
        # a vertical slide weighs its load, where neither offset nor rotor is in the same sum
        ((('revolute', Z), ('prismatic', Z)), ('prior', 'known')),
    ],
)
def test_kinds_are_what_efforts_can_tell(joints, kinds):
    result = identified(arm(*joints))
    found = result.link_knowledge()
    assert tuple(each.kind for each in found) == kinds
    sums, layout = result.structure.regrouping, result.structure.layout
    for each in found:
        unit = np.eye(len(layout))[layout.index(f'{each.link}.m')]
        # a change of parameters that no effort shows, and that is nearest to one of the mass alone
        hidden = unit - np.linalg.pinv(sums) @ (sums @ unit)
        alone = np.abs(hidden).max() < 1e-9
        assert each.kind == 'known' or not alone, each
        seen = np.abs(hidden[layout.index(f'{each.link}.m')] - 1.0) > 1e-9
        assert seen == (each.kind != 'prior'), each
    assert verdict(result).links == tuple(map(str, found))
    document = verdict_document(result)
    assert [link['known'] for link in document['links']] == list(kinds)
    assert document['links'][-1]['sentence'] == str(found[-1])
    assert all(str(each) in ' '.join(verdict(result).summary().split()) for each in found)


def test_sentences_are_true_of_their_numbers():
    """A mass that moved is not said to be the prior's."""
    same = LinkKnowledge('a', 4.97, np.nan, 4.97)
    moved = LinkKnowledge('a', 56.11, np.nan, 4.97)
    hardly = LinkKnowledge('a', 5.2, 1.4, 4.97)
    known = LinkKnowledge('a', 5.31, 0.12, 4.97)
    assert str(same) == 'a: 4.97 kg, the mass of the prior: the recordings do not show it'
    assert str(moved) == 'a: 56.1 kg, not shown by itself: it follows from the prior 4.97 kg'
    assert str(hardly) == 'a: 5.2 +- 1.4 kg, hardly shown (prior 4.97 kg)'
    assert str(known) == 'a: 5.31 +- 0.12 kg (prior 4.97 kg)'
    assert [each.kind for each in (same, moved, hardly, known)] == [
        'prior', 'prior', 'partly', 'known',
    ]  # fmt: skip


def test_what_is_lost_in_noise_keeps_the_spread_of_the_prior():
    joints = (('revolute', Z), ('revolute', Y), ('revolute', Y))
    found = identified(arm(*joints), noise=30.0).link_knowledge()
    assert 'known' not in {each.kind for each in found}
    for each in found:
        assert not each.std < 0.25 * each.prior  # nor is it NaN where gravity shows the link
