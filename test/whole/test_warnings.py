# SPDX-License-Identifier: Apache-2.0
"""Output of the command line on standard error beside errors."""

import numpy as np
import pytest
from robot_identification.cli import main

URDF = """
<robot name="pendulum"><link name="base"/>
<link name="arm"><inertial><origin xyz="0 0 -0.3"/><mass value="2"/>
<inertia ixx="0.05" iyy="0.05" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="tip"/>
<joint name="swing" type="continuous"><parent link="base"/><child link="arm"/>
<axis xyz="0 1 0"/></joint>
<joint name="turn" type="continuous"><parent link="arm"/><child link="tip"/></joint></robot>
"""
EXPERIMENT = """
robot: {urdf: arm.urdf, joints: [swing], locked: {turn: 0}, effort_kind: joint_torque}
data:
  identification: [{file: run.csv, rate: 100, position: [0], effort: [1]}]
output: results
"""


@pytest.mark.parametrize('options', [['--verbose'], ['--quiet']])
def test_every_warning_is_shown_once(tmp_path, capsys, options):
    """Effort that no pendulum has: the estimate warns of the fit, on standard error."""
    random = np.random.default_rng(0)
    time = np.arange(1000) / 100.0
    rows = np.column_stack((np.sin(3 * time) + 0.3 * np.sin(7 * time), random.normal(size=1000)))
    np.savetxt(tmp_path / 'run.csv', rows, delimiter=',')
    (tmp_path / 'arm.urdf').write_text(URDF)
    (tmp_path / 'experiment.yaml').write_text(EXPERIMENT)
    assert main(['identify', str(tmp_path / 'experiment.yaml'), *options]) == 0
    shown = capsys.readouterr()
    printed = ' '.join((shown.out + shown.err).split())
    assert printed.count('of the effort unexplained at swing') == 1
    assert 'of the effort unexplained' in shown.err
    # what was left out is in the verdict's first lines, or in warnings where there is none
    assert printed.count("do not have it: 'turn' at 0 rad") == 1
    assert ("'turn' at 0 rad" in shown.err) == (options == ['--quiet'])
    if options == ['--verbose']:
        lines = shown.out.splitlines()
        assert lines.index('left out or changed') < lines.index('next')
        assert main(['identify', str(tmp_path / 'experiment.yaml')]) == 0
        brief = capsys.readouterr()
        assert not brief.err
        (line,) = (line for line in brief.out.splitlines() if line.startswith('left out'))
        assert line.startswith('left out or changed: 1 locked joint; 4 warnings; see '), line


def test_a_warning_does_not_name_the_program_line(tmp_path, capsys):
    beyond = (
        URDF[URDF.index('<link name="arm">') : URDF.index('<link name="tip"/>')].replace(
            'arm', 'end'
        )
        + '<joint name="spin" type="continuous"><parent link="tip"/><child link="end"/></joint>'
    )
    (tmp_path / 'arm.urdf').write_text(URDF.replace('</robot>', f'{beyond}</robot>'))
    assert main(['check', str(tmp_path / 'arm.urdf')]) == 0
    error = capsys.readouterr().err
    assert error == 'warning: no <inertial>, so their prior is zero: tip\n'
