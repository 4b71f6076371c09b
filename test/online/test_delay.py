# SPDX-License-Identifier: Apache-2.0
"""Tests of the delay of efforts, from the newest rows of a stream."""

from dataclasses import replace
import pickle
import tracemalloc

import numpy as np
import pytest
from robot_identification.data.recording import Recording
from robot_identification.online import delay, DelayWatch, identifier_of
from robot_identification.regressor.inverse_dynamics import predict
from scipy.signal import lfilter

RATE = 250.0
LATE = np.array([0.0, 0.004, 0.004, -0.003, 0.0, 0.0065])


@pytest.fixture(scope='module')
def slow(case):
    """Give a recording of 30 s at 250 Hz, whose efforts are late."""
    time = np.arange(round(30.0 * RATE)) / RATE
    n = len(LATE)
    effort = np.stack(
        [predict(case.regressor, case.motion(time - late, n), case.truth)[:, j]
         for j, late in enumerate(LATE)], axis=1,
    )  # fmt: skip
    position = case.motion(time, n).position
    return Recording(time, position, effort, case.recording.joints)


def followed(case, recording, seed=0, noise=0.02, memory=0.1):
    """Return the watch after the recording, with coloured noise at the efforts."""
    rng = np.random.default_rng(seed)
    kept = np.exp(-1.0 / (RATE * memory))
    white = rng.normal(size=recording.effort.shape)
    coloured = lfilter([np.sqrt(1.0 - kept**2)], [1.0, -kept], white, axis=0)
    size = noise * recording.effort.std(axis=0)
    noisy = replace(recording, effort=recording.effort + size * coloured)
    online = identifier_of(case.problem, 1.0 / RATE, base=case.base)
    watch = DelayWatch(online)
    for update in case.run(online, noisy):
        watch.push(update)
    return watch


def test_delays_are_found_with_their_standard_deviations(case, slow):
    """Errors over seeds of coloured noise are what each has told."""
    found = [followed(case, slow, seed).rows().delay() for seed in range(3)]
    assert found[0].joints == case.recording.joints
    errors = np.array([one.delay for one in found]) - LATE
    told = np.array([one.std for one in found])
    assert np.sqrt(np.mean((errors / told) ** 2)) < 1.6
    assert np.sqrt(np.mean(errors[:, :3] ** 2)) < 1e-3


def test_what_another_process_finds_is_the_same(case, slow):
    rows = followed(case, slow).rows()
    again = pickle.loads(pickle.dumps(rows)).delay()
    np.testing.assert_array_equal(again.delay, rows.delay().delay)


def test_only_the_newest_rows_count_in_memory_that_does_not_grow(case, slow, monkeypatch):
    monkeypatch.setattr(delay, 'ROWS', 300)
    online = identifier_of(case.problem, 1.0 / RATE, base=case.base)
    updates = case.run(online, slow.rows(0, 5000))
    watch = DelayWatch(online)
    for update in updates[:3000]:
        watch.push(update)
    tracemalloc.start()
    for update in updates[3000:]:
        watch.push(update)
    assert tracemalloc.get_traced_memory()[0] < 20_000
    tracemalloc.stop()
    trace = watch.rows().trace
    assert len(trace) == 300
    assert (np.diff(trace.time) > 0.0).all()
    step = np.diff(trace.time)[0]
    assert updates[-1].stamp - trace.time[-1] < step
    place = next(k for k, u in enumerate(updates) if u.stamp == trace.time[7])
    np.testing.assert_array_equal(trace.entries[:, 7], updates[place].entries)
    np.testing.assert_array_equal(trace.effort[7], updates[place].effort)
    np.testing.assert_array_equal(trace.keep[7], updates[place].moving)


def test_a_gap_and_a_step_back_begin_stretches_of_their_own(case, slow):
    online = identifier_of(case.problem, 1.0 / RATE, base=case.base)
    updates = case.run(online, slow.rows(0, 4000))
    watch = DelayWatch(online)
    for update in (*updates[:1000], *updates[1300:2500], *updates[:1000]):
        watch.push(update)
    trace = watch.rows().trace
    begins = np.flatnonzero(np.diff(trace.segment)) + 1
    assert trace.time[begins].tolist() == [updates[1300].stamp, updates[0].stamp]


def test_few_rows_tell_nothing(case, slow):
    online = identifier_of(case.problem, 1.0 / RATE, base=case.base)
    watch = DelayWatch(online)
    assert watch.rows() is None
    for update in case.run(online, slow.rows(0, 500)):
        watch.push(update)
    assert 0 < len(watch) < 200
    assert watch.rows() is None
