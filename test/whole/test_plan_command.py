# SPDX-License-Identifier: Apache-2.0
"""Commands ``plan`` and ``preview``: a plan is written, and checked again against a URDF."""

from pathlib import Path
import signal
import subprocess
import sys

import pytest
from robot_identification.cli.main import main
import yaml

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'demo_arm.urdf'
FILES = ('plan.yaml', 'trajectory.csv', 'trajectory.yaml', 'plan.html')
QUICK = ('--duration', '6', '--set', 'planner.max_iterations=60', '--set', 'planner.floor=0.0')


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('plan')
    assert main(['plan', str(URDF), '--out', str(folder), *QUICK]) == 0
    return folder


def preview(plan, *options, urdf=URDF):
    return main(['preview', str(plan), '--urdf', str(urdf), *map(str, options)])


def edited(tmp_path, folder, change):
    """Write a plan that someone has changed by hand."""
    document = yaml.safe_load((folder / 'plan.yaml').read_text())
    change(document)
    path = tmp_path / 'changed.yaml'
    path.write_text(yaml.safe_dump(document))
    return path


def test_plan_writes_four_files(folder):
    for name in FILES:
        assert (folder / name).stat().st_size > 1000
    document = yaml.safe_load((folder / 'plan.yaml').read_text())
    assert document['trajectory']['duration'] == 6.0
    message = yaml.safe_load((folder / 'trajectory.yaml').read_text())
    assert message['points'][-1]['time_from_start'] == {'sec': 6, 'nanosec': 0}


def test_a_plan_passes_and_a_page_is_written(folder, tmp_path, capsys):
    page = tmp_path / 'page.html'
    assert preview(folder / 'plan.yaml', '--out', page) == 0
    out = capsys.readouterr().out
    assert 'limits used' in out and f'wrote {page}' in out
    assert 'Within all limits' in page.read_text()


def scale(document, factor):
    rows = document['trajectory']['coefficients']
    document['trajectory']['coefficients'] = [[factor * x for x in row] for row in rows]


def quicken(document):
    """Play faster, and say that the robot may."""
    document['trajectory']['duration'] /= 4
    document['trajectory']['frequency'] *= 4
    scale(document, 4.0)
    document['limits']['velocity'] = [1e3] * 6
    document['settings']['planner']['velocity_limits'] = [1e3] * 6


def lower(document):
    """Raise the floor, which the plan itself says, to where the tool is."""
    document['settings']['planner']['floor'] = 0.5


@pytest.mark.parametrize(
    ('change', 'reason'),
    [(lambda d: scale(d, 3.0), 'position of joint'), (quicken, 'velocity'), (lower, "'floor'")],
)
def test_a_plan_that_was_changed_is_refused_with_its_page(
    folder, tmp_path, capsys, change, reason
):
    """Limits that the file itself gives count for nothing, its obstacles do."""
    path = edited(tmp_path, folder, change)
    assert preview(path) == 4
    printed = capsys.readouterr()
    error = [line for line in printed.err.splitlines() if line.startswith('error: ')]
    assert len(error) == 1 and reason in error[0]
    assert 'Refused' in (tmp_path / 'preview.html').read_text()


def test_check_collisions_of_the_file_counts_for_nothing(folder, tmp_path, capsys):
    def change(document):
        lower(document)
        document['settings']['planner']['check_collisions'] = False

    assert preview(edited(tmp_path, folder, change)) == 4


def test_another_urdf_counts_and_is_told(folder, tmp_path, capsys):
    urdf = tmp_path / 'weak.urdf'
    text = URDF.read_text()
    assert 'effort="220"' in text
    urdf.write_text(text.replace('effort="220"', 'effort="5"'))
    assert preview(folder / 'plan.yaml', '--out', tmp_path / 'p.html', urdf=urdf) == 4
    error = capsys.readouterr().err
    assert 'made with another URDF' in error and 'effort of joint' in error


def test_obstacles_of_the_settings_are_added(folder, tmp_path, capsys):
    settings = tmp_path / 'planner.yaml'
    wall = '{name: wall, kind: plane, normal: [0.0, 0.0, -1.0], offset: -0.6}'
    settings.write_text(f'planner: {{obstacles: [{wall}]}}\n')
    out = tmp_path / 'p.html'
    assert preview(folder / 'plan.yaml', '--settings', settings, '--out', out) == 4
    assert "obstacle 'wall'" in capsys.readouterr().err


def test_a_lower_speed_is_longer(folder, tmp_path, capsys):
    out = tmp_path / 'p.html'
    assert preview(folder / 'plan.yaml', '--speed', 0.5, '--out', out) == 0
    assert capsys.readouterr().out.startswith('12 s of ')


@pytest.mark.parametrize(
    ('options', 'code', 'named'),
    [
        (('plan', 'none.urdf'), 2, 'none.urdf'),
        (('plan', str(URDF), '--set', 'planner.marign=0'), 2, 'marign'),
        (('plan', str(URDF), '--method', 'guess'), 2, 'planner.method'),
        (('preview', 'none.yaml', '--urdf', str(URDF)), 2, 'none.yaml'),
        (('preview', str(URDF), '--urdf', str(URDF)), 2, 'demo_arm.urdf'),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, capsys, options, code, named):
    monkeypatch.chdir(tmp_path)
    assert main(list(options)) == code
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 1 and error[0].startswith('error: ') and named in error[0]


def test_control_c_ends_the_planning(tmp_path):
    """With the best plan so far, or one line where there is none yet; never a traceback."""
    command = [
        sys.executable, '-m', 'robot_identification.cli', 'plan', str(URDF),
        '--out', str(tmp_path / 'plan'), '--time-budget', '600', '--duration', '10',
        '--set', 'planner.max_iterations=100000',
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # also where the tests themselves run in the background
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2.0)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=120)
    assert 'Traceback' not in error
    assert (process.returncode == 0) == ('wrote' in out)
    assert process.returncode in (0, 1, 2, 130)  # 130: before the planning began


def test_meshes_that_are_not_found_end_plan_and_preview_until_they_are_accepted(
    folder, tmp_path, capsys, monkeypatch
):
    # for the end of the test
    monkeypatch.setenv('ROS_PACKAGE_PATH', '')
    # all of the link's shapes: what is left of one that touches its neighbor may be kept apart
    text = URDF.read_text()
    begin = text.index('<collision', text.index('<link name="link_6"'))
    shape = text[begin : text.index('</collision>', begin)]
    mesh = '<collision><geometry><mesh filename="package://gone/link_6.stl"/></geometry>'
    urdf = tmp_path / 'arm.urdf'
    urdf.write_text(text.replace(shape, mesh, 1))
    for run in (
        lambda *more: main(['plan', str(urdf), '--out', str(tmp_path), *QUICK, *more]),
        lambda *more: preview(
            folder / 'plan.yaml', '--out', tmp_path / 'p.html', *more, urdf=urdf
        ),
    ):
        assert run() == 2
        error = capsys.readouterr().err
        assert "link_6.stl' of link 'link_6' is not found" in error
        assert '--package-path' in error and 'planner.unchecked_links: [link_6]' in error
        assert run('--package-path', str(tmp_path / 'nowhere')) == 2
        assert 'nowhere' in capsys.readouterr().err
        assert run('--set', 'planner.unchecked_links=[link_6]') == 0
        printed = capsys.readouterr()
        assert 'of links without their meshes: link_6' in printed.out
    for page in ('plan.html', 'p.html'):
        assert 'collisions checked in part' in (tmp_path / page).read_text()
    found = tmp_path / 'packages' / 'gone' / 'link_6.stl'
    found.parent.mkdir(parents=True)
    found.write_text(
        'solid s\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 0.1 0 0\nvertex 0 0.1 0\n'
        'endloop\nendfacet\nendsolid s\n'
    )
    monkeypatch.chdir(tmp_path)
    relative = ('--package-path', 'packages', '--out', 'found.html')
    assert preview(folder / 'plan.yaml', *relative, urdf='arm.urdf') == 0
    assert 'free of collision' in (tmp_path / 'found.html').read_text()
