# SPDX-License-Identifier: Apache-2.0
"""Every term of friction in everything that goes through the table of terms."""

from dataclasses import fields
import os
from pathlib import Path
import subprocess
import sys
import warnings

from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
import numpy as np
import pytest
from robot_identification.data.recognition import require_kind
from robot_identification.data.recording import Motion
from robot_identification.errors import IdentificationError
from robot_identification.estimation.physical_fit import drive_signs
from robot_identification.exports.mjcf_export import mjcf
from robot_identification.exports.urdf_export import identified_urdf
from robot_identification.model.consistency import check
from robot_identification.model.friction import (
    FALLING,
    FRICTION,
    FrictionState,
    POSITIVE,
    SMOOTH,
)
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings, predict, prior
from robot_identification.simulation import SimulationSettings

ROOT = Path(__file__).resolve().parents[1]
TERMS = pytest.mark.parametrize('term', FRICTION.values(), ids=FRICTION)


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(ROOT / 'urdf' / 'szabo_3r.urdf')


def model_of(term):
    """Return settings with a term, and with what it may need."""
    base = ('stiction',) if term.sign == FALLING else ()
    return ModelSettings((*base, term.name), rotor_inertia=False)


def parameters_of(robot, term, value=0.3):
    start = prior(robot, model_of(term))
    own = {f'{joint}.{term.symbol}': value for joint in robot.joints}
    return start.updated(own)


SPEEDS = st.lists(st.floats(-20.0, 20.0), min_size=1, max_size=20).map(np.array)


@TERMS
@given(velocity=SPEEDS, load=st.floats(-50.0, 50.0))
def test_a_positive_coefficient_takes_power(term, velocity, load):
    if term.sign != POSITIVE:
        return
    way = np.sign(velocity)
    function = term.function(FrictionState(velocity, way, way, 10.0, load))
    assert function.shape == velocity.shape
    assert (function * velocity >= 0.0).all()


@TERMS
def test_derivatives_are_those_of_the_functions(term):
    assert (term.derivative is None) == (term.kind != SMOOTH)
    if term.derivative is None:
        return
    velocity, step = np.array([-3.0, -0.2, 0.05, 1.0, 7.0]), 1e-6

    def state(change):
        v = velocity + change
        return FrictionState(v, np.sign(v), np.sign(v))

    slope = (term.function(state(step)) - term.function(state(-step))) / (2.0 * step)
    np.testing.assert_allclose(term.derivative(state(0.0)), slope, rtol=1e-7)


@TERMS
def test_efforts_are_coefficients_times_functions(robot, term):
    rng = np.random.default_rng(1)
    motion = Motion(*rng.uniform(-3.0, 3.0, (3, 20, robot.n_joints)))
    model = model_of(term)
    parameters = parameters_of(robot, term)
    more = predict(build(robot, model), motion, parameters)
    less = predict(build(robot, model), motion, parameters_of(robot, term, 0.0))
    way = np.sign(motion.velocity)
    bodies = predict(build(robot, ModelSettings((), False)), motion, rigid(robot))
    state = FrictionState(motion.velocity, way, way, term.usual_slope, bodies)
    np.testing.assert_allclose(more - less, 0.3 * term.function(state), atol=1e-12)


def rigid(robot):
    return prior(robot, ModelSettings((), False))


@TERMS
def test_fits_and_checks_hold_a_coefficient_to_its_sign(robot, term):
    layout = parameters_of(robot, term).layout
    rows = drive_signs(layout, model_of(term))
    held = rows[:, [i for i, name in enumerate(layout) if name.endswith(f'.{term.symbol}')]]
    assert held.any() == (term.sign in (POSITIVE, FALLING))
    found = {problem.parameter for problem in check(parameters_of(robot, term, -50.0)).joints}
    own = {f'{joint}.{term.symbol}' for joint in robot.joints}
    assert found >= own if held.any() else not found


@TERMS
def test_descriptions_have_a_term_or_say_that_they_do_not(robot, term):
    parameters, model = parameters_of(robot, term), model_of(term)
    for text, attribute in (
        (identified_urdf(robot, parameters, model), _URDF.get(term.mjcf)),
        (_quietly(mjcf, robot, parameters, model), term.mjcf),
    ):
        document = etree.fromstring(text.encode())
        values = [element.get(attribute) for element in document.iter()] if attribute else []
        comments = ' '.join(str(node.text) for node in document.iter(etree.Comment))
        written = sum(value is not None and float(value) != 0.0 for value in values)
        assert written >= robot.n_joints or f'{robot.joints[0]}.{term.symbol} = 0.3' in comments
        assert bool(attribute) or written == 0


_URDF = {'damping': 'damping', 'frictionloss': 'friction'}


def _quietly(function, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        return function(*arguments)


@TERMS
def test_the_simulated_robot_can_have_a_term(term):
    assert term.name in {field.name for field in fields(SimulationSettings)}


@TERMS
def test_a_list_of_parameters_is_recognised_by_a_term(tmp_path, term):
    path = tmp_path / 'p.yaml'
    path.write_text(f'shoulder.{term.symbol}: 0.25\n')
    require_kind(path, 'parameters', 'prior')
    path.write_text('shoulder.fx: 0.25\n')
    with pytest.raises(IdentificationError):
        require_kind(path, 'parameters', 'prior')


TRIAL = """
import sys
import numpy as np
from robot_identification.model.friction import FRICTION, FrictionTerm, POSITIVE, SMOOTH

FRICTION['square'] = FrictionTerm(
    'square',
    'fq',
    'friction by the square of the speed',
    'fq |dq| dq',
    ('N m (s/rad)^2', 'N (s/m)^2'),
    SMOOTH,
    POSITIVE,
    lambda state: np.abs(state.velocity) * state.velocity,
    'FQ[i] * fabs(v[i]) * v[i]',
    derivative=lambda state: 2.0 * np.abs(state.velocity),
    gear_power=3.0,
)

from robot_identification.exports.c_export import c_code
from robot_identification.identification.pipeline import IdentificationProblem, identify_sources
from robot_identification.model.robot import Robot
from robot_identification.regressor import ModelSettings
from robot_identification.simulation import simulate, SimulationSettings, truth, Waypoints

robot = Robot.from_urdf(sys.argv[1])
settings = SimulationSettings(square=(0.8, 0.5, 0.5), velocity_noise=0.0, effort_noise=0.0)
time = np.arange(0.0, 10.0, 0.02)
random = np.random.default_rng(1)
phases = 2.0 * np.pi * (np.array([0.5, 0.9, 1.4])[:, None] * time + random.random((3, 1)))
position = np.array([[1.0], [0.6], [0.4]]) * np.sin(phases)
recording = simulate(robot, Waypoints(robot.joints, time, position.T), settings)
model = ModelSettings(('viscous', 'coulomb', 'offset', 'square'))
result = identify_sources(IdentificationProblem(robot, model), [recording])
true = truth(robot, settings)
for joint in robot.joints:
    name = f'{joint}.fq'
    assert abs(result.standard[name] / true[name] - 1.0) < 0.1, (name, result.standard[name])
code = c_code(robot, result.standard, model)
assert 'FQ[i] * fabs(v[i]) * v[i]' in code
print('identified, simulated and exported')
"""


def test_a_term_is_added_by_one_entry():
    """As CONTRIBUTING.md tells: the table of terms; everything that reads it is imported after."""
    command = [sys.executable, '-c', TRIAL, ROOT / 'urdf' / 'szabo_3r.urdf']
    environment = {**os.environ, 'PYTHONPATH': str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == 'identified, simulated and exported\n', done.stderr
