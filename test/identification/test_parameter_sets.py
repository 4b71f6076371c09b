# SPDX-License-Identifier: Apache-2.0
"""
Sets of parameters that leave, against an arm with known parameters.

Pinocchio's inverse dynamics of each set is held against the true efforts; files are run as they
are, with stand-ins for what they import.
"""

import io
from pathlib import Path
import sys
from types import ModuleType, SimpleNamespace

from command_line import run_command
from lxml import etree
import mujoco
import numpy as np
import pinocchio as pin
import pytest
from robot_identification import export, export_sets, identify, read_result, Recording
from robot_identification.data.recording import Motion
from robot_identification.errors import IdentificationError, SettingsError
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings, predict, prior
from robot_identification.results.exported_files import ExportedFiles
from robot_identification.results.result import write_result
import yaml

PATH = Path(__file__).resolve().parents[2] / 'urdf' / 'szabo_3r.urdf'
MODEL = ModelSettings(friction=('viscous', 'coulomb', 'offset'))
NOISE = np.array([3.0, 2.0, 1.0])
COUNT = 60
SETTINGS = {
    'robot': {'effort_kind': 'joint_torque', 'friction': MODEL.friction},
    'signals': {'method': 'butterworth', 'cutoff': 20.0, 'decimate_to': None, 'dead_zone': 0.02},
    'auto': False,
}


def motion(seed):
    """Return eight seconds of sums of sines."""
    random, time = np.random.default_rng([seed, 1]), np.arange(0.0, 8.0, 0.01)
    q, v, a = np.zeros((3, time.size, 3))
    for k in range(1, 6):
        rate, size = 0.8 * k, random.uniform(0.1, 0.4, 3)
        angle = rate * time[:, None] + random.uniform(0.0, 6.0, 3)
        q += size * np.sin(angle)
        v += size * rate * np.cos(angle)
        a -= size * rate**2 * np.sin(angle)
    return time, Motion(q, v, a)


def truth(arm):
    """Return parameters other than the URDF's, without offsets, which sets do not have."""
    known = prior(arm, MODEL)
    joints = {f'joint_{j}.{s}': x for j in (1, 2, 3) for s, x in (('fv', 3.0), ('fc', 4.0))}
    rotors = {f'joint_{j}.Ia': 1.0 / j for j in (1, 2, 3)}
    masses = {name: 1.2 * x for name, x in known.as_dict().items() if name.startswith('link_3.')}
    return known.updated(joints | rotors | masses)


def true_efforts(seed):
    arm = Robot.from_urdf(PATH)
    return predict(build(arm, MODEL), motion(seed)[1], truth(arm))


def run(seed):
    time, moved = motion(seed)
    random = np.random.default_rng([seed, 2])
    effort = true_efforts(seed) + NOISE * random.standard_normal((time.size, 3))
    joints = tuple(f'joint_{j}' for j in (1, 2, 3))
    return Recording(time, moved.position, effort, joints, source=f'run_{seed}')


def identified(seed, validation=None):
    seen = () if validation is None else validation
    return identify(PATH, run(seed), validation=seen, settings=SETTINGS)


@pytest.fixture(scope='module')
def result():
    return identified(1, run(2))


def arrays(found, count=COUNT):
    return dict(np.load(io.BytesIO(export_sets(found, count, 'npz'))))


@pytest.fixture(scope='module')
def sets(result):
    return arrays(result)


def efforts(sets, number, moved):
    """Efforts of a set by Pinocchio."""
    model = pin.buildModelFromUrdf(str(PATH))
    for k, link in enumerate(sets['links']):
        joint = model.frames[model.getFrameId(str(link))].parentJoint
        of = (sets[name][number, k] for name in ('mass', 'center_of_mass', 'inertia'))
        model.inertias[joint] = pin.Inertia(*of)
    data = model.createData()
    states = zip(moved.position, moved.velocity, moved.acceleration, strict=True)
    rigid = np.array([pin.rnea(model, data, *state) for state in states])
    return (
        rigid
        + sets['armature'][number] * moved.acceleration
        + sets['damping'][number] * moved.velocity
        + sets['friction'][number] * np.sign(moved.velocity)
    )


def covered(sets, moved, wanted):
    """Return the share of efforts between the outermost of 90 % of the sets."""
    drawn = np.array([efforts(sets, number, moved) for number in range(len(sets['mass']))])
    low, high = np.quantile(drawn, (0.05, 0.95), axis=0)
    return np.mean((low <= wanted) & (wanted <= high))


def test_the_true_efforts_lie_in_the_band_as_often_as_it_says():
    _, moved = motion(50)
    thinned = Motion(
        *(part[::20] for part in (moved.position, moved.velocity, moved.acceleration))
    )
    wanted = true_efforts(50)[::20]
    shares = [covered(arrays(identified(seed)), thinned, wanted) for seed in range(10, 16)]
    assert 0.8 < np.mean(shares) < 0.98


def test_the_stated_coverage_is_that_of_the_measured_efforts(result, sets):
    time, moved = motion(2)
    coverage = result.files.recordings[0].coverage
    drawn = np.array([efforts(sets, number, moved) for number in range(COUNT)])
    noise = np.random.default_rng(8).standard_normal(drawn.shape) * sets['noise']
    low, high = np.quantile(drawn + noise, (0.05, 0.95), axis=0)
    trace = result.validations[0].trace  # what was measured, filtered as in the identification
    places = np.searchsorted(time, trace.time - 1e-6)
    within = (low[places] <= trace.measured) & (trace.measured <= high[places])
    inside = within[trace.keep].mean()
    assert coverage.with_residual == pytest.approx(inside, abs=0.02)
    assert coverage.sets < 0.5 < 0.85 < coverage.with_residual
    assert result.files.recordings[0].covered.keys() == {'joint_1', 'joint_2', 'joint_3'}


def test_every_set_is_one_that_mujoco_and_pinocchio_take(result, sets):
    document = etree.fromstring(export(result, 'mjcf').encode())
    for number in range(COUNT):
        for k, link in enumerate(sets['links']):
            inertia = sets['inertia'][number, k]
            values = {
                'mass': sets['mass'][number, k : k + 1],
                'pos': sets['center_of_mass'][number, k],
                'fullinertia': inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]],
            }
            body = document.xpath(f'//body[@name="{link}"]/inertial')[0]
            body.attrib.clear()
            body.attrib.update({n: ' '.join(map(repr, v.tolist())) for n, v in values.items()})
            low, middle, high = np.linalg.eigvalsh(inertia)
            assert low > 0.0 and high < low + middle
        # raises for bodies that cannot exist
        mujoco.MjModel.from_xml_string(etree.tostring(document, encoding='unicode'))
    for name in ('mass', 'armature', 'damping', 'friction'):
        assert (sets[name] >= 0.0).all()


def test_sets_have_the_deviations_of_the_result(result, sets):
    known = dict(zip(result.standard.layout, result.standard_std, strict=True))
    many = arrays(result, 400)
    inflation = result.files.spread.inflation
    for j, symbol, name in ((1, 'fc', 'friction'), (2, 'fv', 'damping'), (0, 'fv', 'damping')):
        std = inflation * known[f'joint_{j + 1}.{symbol}']
        values = many[name][:, j]
        assert values.std() == pytest.approx(std, rel=0.15)
        assert values.mean() == pytest.approx(result.standard[f'joint_{j + 1}.{symbol}'], abs=std)
    assert sets['noise'] == pytest.approx(
        [joint.rmse for joint in result.estimate.fit.joints], rel=0.2
    )


def test_the_command_writes_what_python_does(result, sets, tmp_path):
    write_result(result, tmp_path / 'result.yaml')
    given = [tmp_path, 'export', 'result.yaml', '--samples', COUNT, '--out']
    said = run_command(*given, 'sets.npz').stdout
    assert '90 % of the sets cover' in said and 'run_2' in said
    read = dict(np.load(tmp_path / 'sets.npz'))
    np.testing.assert_allclose(read['inertia'], sets['inertia'], rtol=1e-6, atol=1e-12)
    run_command(*given, 'sets.yaml')
    written = yaml.safe_load((tmp_path / 'sets.yaml').read_text())
    assert len(written['sets']) == COUNT
    assert written['coverage'][0]['with_residual'] == pytest.approx(
        result.files.recordings[0].coverage.with_residual
    )
    third = written['sets'][3]
    assert third['links']['link_2']['mass'] == pytest.approx(sets['mass'][3, 1])
    assert third['joints']['joint_3']['armature'] == pytest.approx(sets['armature'][3, 2])


def test_without_a_validation_nothing_is_said_to_be_covered(tmp_path):
    found = identified(3)
    assert found.files.recordings[0].coverage is None
    write_result(found, tmp_path / 'result.yaml')
    given = [tmp_path, 'export', 'result.yaml', '--samples', 2, '--out', 'sets.npz']
    said = run_command(*given).stdout
    assert 'was not checked: the result was validated on no recording' in said


def test_sets_that_cannot_be_drawn_are_refused_in_a_line(result, tmp_path):
    write_result(result, tmp_path / 'result.yaml')
    stored = read_result(tmp_path / 'result.yaml')
    with pytest.raises(SettingsError, match="not written as 'sdf'.*yaml, npz, isaaclab"):
        export_sets(stored, 3, 'sdf')
    with pytest.raises(SettingsError, match="'npz' is no format.*--samples"):
        export(stored, 'npz')
    broken = SimpleNamespace(**vars(stored) | {'files': ExportedFiles()})
    with pytest.raises(IdentificationError, match='no covariance.*identify again'):
        export_sets(broken, 3)
    negative = stored.standard.updated({'joint_2.fc': -1.0})
    broken = SimpleNamespace(**vars(stored) | {'standard': negative})
    with pytest.raises(IdentificationError, match='cannot exist.*estimation.method: physical'):
        export_sets(broken, 3)


# ----------------------------------------------------------------- files of events, as they run


class Tensor(np.ndarray):
    """As much of a tensor of PyTorch as the files need."""

    def to(self, *_args):
        return self

    def cpu(self):
        return self

    def clone(self):
        return self.copy()

    def expand(self, *shape):
        return np.broadcast_to(self, shape).view(Tensor)


def executed(text, monkeypatch):
    """Run a file, with stand-ins for what it imports."""

    def tensor(values, **_options):
        return np.array(values).view(Tensor)

    torch = {
        'tensor': tensor,
        'arange': lambda n: np.arange(n).view(Tensor),
        'randint': lambda _, shape: np.arange(shape[0])[::-1].copy().view(Tensor),
        'cat': lambda parts, dim: np.concatenate(parts, axis=dim),
    }
    terms = {
        'EventTermCfg': SimpleNamespace,
        'SceneEntityCfg': lambda name: SimpleNamespace(name=name),
        'requires_model_fields': lambda *_names, recompute: lambda term: term,
        'RecomputeLevel': SimpleNamespace(set_const=3),
    }
    for name in (
        'isaaclab',
        'isaaclab.managers',
        'mjlab',
        'mjlab.managers',
        'mjlab.managers.event_manager',
        'mjlab.managers.scene_entity_config',
        'torch',
    ):
        module = ModuleType(name)
        vars(module).update(torch if name == 'torch' else terms)
        monkeypatch.setitem(sys.modules, name, module)
    file = {}
    exec(compile(text, 'events.py', 'exec'), file)
    return file


NAMES = {
    'bodies': ['base', 'link_3', 'link_1', 'link_2'],
    'joints': ['joint_2', 'joint_3', 'joint_1'],
}


def finding(names):
    def find(expressions, *, preserve_order):
        assert preserve_order
        return [names.index(each) for each in expressions], expressions

    return find


def entity(**further):
    find = {f'find_{kind}': finding(names) for kind, names in NAMES.items()}
    return SimpleNamespace(device='cpu', **find, **further)


def environment(asset, **further):
    scene = SimpleNamespace(num_envs=3, **{'__getitem__': None})
    scene = type(
        'Scene', (), {'num_envs': 3, '__getitem__': lambda _, name: {'robot': asset}[name]}
    )
    return SimpleNamespace(scene=scene(), num_envs=3, device='cpu', **further)


def test_an_environment_of_mjlab_gets_one_whole_set(result, sets, monkeypatch):
    file = executed(export_sets(result, COUNT, 'mjlab'), monkeypatch)
    body_ids, addresses = np.array([0, 5, 6, 7]), np.array([10, 11, 12])
    asset = entity(indexing=SimpleNamespace(body_ids=body_ids, joint_v_adr=addresses))
    sizes = {'mass': (), 'ipos': (3,), 'inertia': (3,), 'iquat': (4,)}
    model = SimpleNamespace(
        **{f'body_{name}': np.zeros((3, 8, *size)) for name, size in sizes.items()},
        **{f'dof_{name}': np.zeros((3, 13)) for name in ('armature', 'damping', 'frictionloss')},
    )
    env = environment(asset, sim=SimpleNamespace(model=model))
    term = file['EVENTS']['identified_parameters']
    assert term.mode == 'startup'
    term.func(env, None)
    for world, number in enumerate((2, 1, 0)):
        for k, link in enumerate(sets['links']):
            place = body_ids[NAMES['bodies'].index(link)]
            axes = pin.Quaternion(np.roll(model.body_iquat[world, place], -1)).toRotationMatrix()
            inertia = axes @ np.diag(model.body_inertia[world, place]) @ axes.T
            np.testing.assert_allclose(inertia, sets['inertia'][number, k], atol=1e-8)
            np.testing.assert_allclose(
                model.body_ipos[world, place], sets['center_of_mass'][number, k], rtol=1e-8
            )
            assert model.body_mass[world, place] == pytest.approx(sets['mass'][number, k])
        for j, joint in enumerate(sets['joints']):
            place = addresses[NAMES['joints'].index(joint)]
            fields = {'armature': 'armature', 'damping': 'damping', 'friction': 'frictionloss'}
            for name, field in fields.items():
                value = getattr(model, f'dof_{field}')[world, place]
                assert value == pytest.approx(sets[name][number, j])


class IsaacLab3:
    """Setters of Isaac Lab 3, whose values are those of the given places."""

    device = 'cpu'

    def __init__(self):
        self.written = {}
        self.find_bodies, self.find_joints = map(finding, NAMES.values())

    def __getattr__(self, name):
        if not name.endswith('_index'):
            raise AttributeError(name)
        return lambda **values: self.written.update(values)


@pytest.mark.parametrize('newton', [False, True])
def test_an_environment_of_isaac_lab_3_gets_one_whole_set(result, sets, monkeypatch, newton):
    file = executed(export_sets(result, COUNT, 'isaaclab'), monkeypatch)
    asset = IsaacLab3()
    manager = type('NewtonManager' if newton else 'PhysxManager', (), {})
    file['identified_parameters'](
        environment(asset, sim=SimpleNamespace(physics_manager=manager)), None
    )
    order = [2, 1, 0]
    found = asset.written
    assert found['body_ids'] == [2, 3, 1] and found['joint_ids'] == [2, 0, 1]
    np.testing.assert_allclose(found['masses'], sets['mass'][order], rtol=1e-8)
    np.testing.assert_allclose(found['coms'][..., :3], sets['center_of_mass'][order], rtol=1e-7)
    assert found['coms'].shape == ((3, 3, 3) if newton else (3, 3, 7))
    inertia = sets['inertia'][order].reshape(3, 3, 9)
    np.testing.assert_allclose(found['inertias'], inertia, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(found['armature'], sets['armature'][order], rtol=1e-8)
    np.testing.assert_allclose(found['joint_friction_coeff'], sets['friction'][order], rtol=1e-8)
    if not newton:
        viscous = found['joint_viscous_friction_coeff']
        np.testing.assert_allclose(viscous, sets['damping'][order], rtol=1e-8)


def test_an_environment_of_isaac_lab_2_gets_one_whole_set(result, sets, monkeypatch):
    file = executed(export_sets(result, COUNT, 'isaaclab'), monkeypatch)
    known = {
        'masses': np.zeros((3, 4)),
        'coms': np.zeros((3, 4, 7)),
        'inertias': np.zeros((3, 4, 9)),
    }
    view, written = SimpleNamespace(), {}
    for name, values in known.items():
        setattr(view, f'get_{name}', lambda values=values: values.view(Tensor))
        setattr(view, f'set_{name}', lambda new, _ids, name=name: written.update({name: new}))
    writers = {
        f'write_joint_{name}_to_sim': lambda **values: written.update(values)
        for name in ('armature', 'friction_coefficient')
    }
    asset = entity(root_physx_view=view, **writers)
    file['identified_parameters'](environment(asset, sim=SimpleNamespace()), None)
    np.testing.assert_allclose(written['masses'][:, [2, 3, 1]], sets['mass'][[2, 1, 0]], rtol=1e-8)
    assert not written['masses'][:, 0].any()
    np.testing.assert_allclose(written['coms'][:, 2, 6], 1.0)
    np.testing.assert_allclose(
        written['inertias'][:, 2],
        sets['inertia'][[2, 1, 0], 0].reshape(3, 9),
        rtol=1e-7,
        atol=1e-12,
    )
    dynamic = written['joint_dynamic_friction_coeff']
    np.testing.assert_allclose(dynamic, sets['friction'][[2, 1, 0]], rtol=1e-8)
