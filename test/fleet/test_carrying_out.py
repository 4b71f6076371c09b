# SPDX-License-Identifier: Apache-2.0
"""Tasks for many items, through failures and killed workers, on real processes."""

import importlib
import importlib.util
import os
from pathlib import Path
import platform
import signal
import sys

import pytest
from robot_identification.errors import IdentificationError, SettingsError
from robot_identification.fleet import crews, dask_crew
from robot_identification.fleet.carrying_out import carry_out
from robot_identification.fleet.crews import open_crew

ITEMS = range(12)


@pytest.fixture(scope='module', autouse=True)
def tasks():
    """Let workers find the module of the tasks, as they find ours."""
    folder = str(Path(__file__).parent)
    sys.path.insert(0, folder)
    yield importlib.import_module('crew_tasks')
    sys.path.remove(folder)


def outcome(task, folder, scheduler='processes', retries=1):
    with open_crew(scheduler, 2, str(folder).encode()) as crew:
        done = list(carry_out(crew, task, ITEMS, retries=retries))
    assert sorted(one.item for one in done) == list(ITEMS)
    return {one.item: one for one in done}


def test_every_item_is_done_with_the_payload(tasks, tmp_path):
    done = outcome(tasks.double, tmp_path)
    assert {item: one.value for item, one in done.items()} == {
        item: (str(tmp_path).encode(), 2 * item) for item in ITEMS
    }


def test_what_may_pass_is_tried_again(tasks, tmp_path):
    done = outcome(tasks.fail_first, tmp_path)
    assert {item: one.attempts for item, one in done.items()} == {i: 1 + i % 2 for i in ITEMS}
    assert not any(one.failure for one in done.values())


def test_without_retries_it_fails(tasks, tmp_path):
    done = outcome(tasks.fail_first, tmp_path, retries=0)
    assert {item for item, one in done.items() if one.failure} == {1, 3, 5, 7, 9, 11}
    assert done[1].failure == 'OSError: [Errno 5] the disk is asleep'


def test_one_failing_item_leaves_the_others_alone(tasks, tmp_path):
    done = outcome(tasks.always_fail, tmp_path)
    assert {item for item, one in done.items() if one.failure} == {3}
    assert done[3].failure == 'ValueError: no, not three'
    assert done[3].attempts == 2


def test_a_killed_worker_is_made_up_for(tasks, tmp_path):
    done = outcome(tasks.die_once, tmp_path)
    assert (tmp_path / 'died').exists()
    assert {item: one.value for item, one in done.items()} == dict(zip(ITEMS, ITEMS, strict=True))


@pytest.mark.parametrize('retries', [0, 1])
def test_the_item_that_kills_its_worker_is_found_and_no_other_given_up(tasks, tmp_path, retries):
    done = outcome(tasks.die_always, tmp_path, retries=retries)
    assert {item for item, one in done.items() if one.failure} == {3}
    assert 'killed' in done[3].failure


def test_few_items_are_taken_ahead(tasks, tmp_path):
    taken = []

    def items():
        for item in range(50):
            taken.append(item)
            yield item

    with open_crew('processes', 2, b'') as crew:
        for count, _ in enumerate(carry_out(crew, tasks.process, items()), 1):
            assert len(taken) <= count + 2 * 2 + 1


@pytest.mark.skipif(platform.libc_ver()[0] != 'glibc', reason='another C library decides itself')
@pytest.mark.parametrize('scheduler', ['processes', 'dask'])
def test_workers_keep_memory_for_the_next_item(tasks, scheduler):
    if scheduler == 'dask':
        pytest.importorskip('distributed')
    with open_crew(scheduler, 1, b'') as crew:
        pages = sorted(done.value for done in carry_out(crew, tasks.take_memory, range(6)))
    # but for the first item
    assert pages[-2] < 500


def test_dask_does_the_same(tasks, tmp_path):
    pytest.importorskip('distributed')
    with open_crew('dask', 2, str(tmp_path).encode()) as crew:
        assert crew.workers == 2
        assert 'Dask' in crew.name
        for task, failing in ((tasks.fail_first, set()), (tasks.always_fail, {3})):
            done = list(carry_out(crew, task, ITEMS, retries=1))
            assert sorted(one.item for one in done) == list(ITEMS)
            assert {one.item for one in done if one.failure} == failing
        done = list(carry_out(crew, tasks.die_once, ITEMS, retries=1))
        assert (tmp_path / 'died').exists()
        assert sorted(one.value for one in done) == list(ITEMS)
        # short items go together by now
        assert crew.ahead > 4
        done = list(carry_out(crew, tasks.die_always, ITEMS, retries=1))
        assert {one.item for one in done if one.failure} == {3}
        assert sorted(one.item for one in done) == list(ITEMS)


def test_unknown_schedulers_are_refused():
    with pytest.raises(SettingsError, match="'slurm' is no scheduler: give processes, dask, or"):
        open_crew('slurm', 1, b'').__enter__()


def test_an_address_where_nobody_is(monkeypatch):
    pytest.importorskip('distributed')
    monkeypatch.setattr(dask_crew, '_CONNECT_SECONDS', 1.0)
    with pytest.raises(IdentificationError, match=r'no Dask scheduler answers at tcp://127'):
        open_crew('tcp://127.0.0.1:9', 1, b'').__enter__()


class NoCluster:
    """A client of workers that answer, or raise, what is given, the last of it again and again."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def wait_for_workers(self, count, timeout):
        if self.answers[0] is None:
            raise TimeoutError

    def run(self, function, on_error):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return {'tcp://one': function(), 'tcp://two': answer}


@pytest.mark.parametrize(
    ('answer', 'text'),
    [
        (None, 'tcp://there has no workers: start some'),
        (ImportError('no module'), r'cannot use robot_identification \(no module\): install'),
        ('0.0.0', 'worker tcp://two has robot_identification 0.0.0, not .*: install the same'),
    ],
)
def test_workers_that_cannot_do_the_work(answer, text):
    with pytest.raises(IdentificationError, match=text):
        dask_crew.DaskCrew(NoCluster(answer), 'tcp://there', b'')


def test_workers_that_are_killed_each_time_are_reported_as_such(monkeypatch):
    monkeypatch.setattr(dask_crew, '_CONNECT_SECONDS', 0.1)
    closed = OSError('connection closed')
    with pytest.raises(IdentificationError, match='killed as they started.*tcp://two') as caught:
        dask_crew.DaskCrew(NoCluster(closed), 'tcp://there', b'')
    assert 'install' not in str(caught.value)


def test_a_worker_that_is_killed_as_it_starts_is_made_up_for(tasks, tmp_path):
    pytest.importorskip('distributed')
    with dask_crew.dask_client('dask', 1) as client:
        (pid,) = client.run(os.getpid).values()
        os.kill(pid, signal.SIGKILL)
        crew = dask_crew.DaskCrew(client, 'dask', str(tmp_path).encode(), 1)
        done = list(carry_out(crew, tasks.double, ITEMS))
    assert sorted(one.value[1] for one in done) == [2 * item for item in ITEMS]


def test_without_dask_processes_are_the_default(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        crews.importlib.util,
        'find_spec',
        lambda name, *rest: None if name == 'distributed' else find(name, *rest),
    )
    with open_crew(None, 1, b'') as crew:
        assert crew.name == 'processes, 1 at a time'
    for scheduler in ('dask', 'tcp://127.0.0.1:8786'):
        with pytest.raises(SettingsError, match='needs Dask, which is not installed: install'):
            open_crew(scheduler, 1, b'').__enter__()
