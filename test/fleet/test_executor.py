# SPDX-License-Identifier: Apache-2.0
"""Tasks for many items, through failures and killed workers, on real processes."""

import asyncio
import gc
import os
import platform
import signal
import sys
import time
import urllib.error
import urllib.request

import pytest
from robot_identification.errors import IdentificationError, SettingsError
from robot_identification.fleet import executor
from robot_identification.fleet.executor import AHEAD, DaskExecutor, local_client, open_executor

pytest.importorskip('distributed')
from distributed.comm import CommClosedError, connect
from distributed.security import Security
import psutil

ITEMS = range(12)
RETRIES = 1


@pytest.fixture(scope='module')
def client(tasks):
    before = listening()
    with local_client(2, RETRIES) as client:
        client.listening = listening() - before
        yield client


@pytest.fixture(params=['dask', 'sequential'])
def outcome(request, tmp_path):
    """Give the function that does a task for all items."""
    # started for the parameter that needs it
    client = request.getfixturevalue('client') if request.param == 'dask' else None

    def run(task, retries=RETRIES):
        payload = str(tmp_path).encode()
        if client is None:
            engaged = executor.SequentialExecutor(payload, retries)
        else:
            engaged = DaskExecutor(client, payload, retries, 2)
        return by_item(engaged.run(task, ITEMS))

    return run


def by_item(run):
    done = list(run)
    assert sorted(one.item for one in done) == list(ITEMS)
    return {one.item: one for one in done}


def listening():
    """List address and port on which this process and those it started listen."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return {
        socket.laddr
        for process in processes
        for socket in process.net_connections('tcp')
        if socket.status == psutil.CONN_LISTEN
    }


@pytest.mark.parametrize('protocol', ['tcp', 'tls'])
def test_strangers_are_refused(client, protocol):
    sockets = client.listening
    others = None if protocol == 'tcp' else Security.temporary()  # of another cluster
    assert len(sockets) >= 5  # scheduler, workers, their supervisors
    assert {address for address, _ in sockets} == {'127.0.0.1'}
    refused = OSError, CommClosedError, asyncio.TimeoutError
    answers = asyncio.run(
        together(identity(f'{protocol}://127.0.0.1:{port}', others, 2.0) for _, port in sockets)
    )
    assert all(isinstance(answer, refused) for answer in answers), answers
    own = asyncio.run(identity(client.scheduler.address, client.security, 60.0))
    assert own['type'] == 'Scheduler'


async def together(questions):
    """Return the answers of all, or the errors in their places."""
    return await asyncio.gather(*questions, return_exceptions=True)


async def identity(address, security, seconds):
    """Ask who listens at an address, as a stranger would before sending code."""
    arguments = {} if security is None else security.get_connection_args('client')

    async def answer():
        found = await connect(address, timeout=1.0, **arguments)
        await found.write({'op': 'identity', 'reply': True})
        read = await found.read()
        found.abort()
        return read

    # those who wait for a greeting in TLS never answer
    return await asyncio.wait_for(answer(), seconds)


def test_there_is_no_dashboard(client):
    ports = [
        client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.http_server.port),
        *client.run(lambda dask_worker: dask_worker.http_server.port).values(),
    ]
    for port in ports:
        for page in ('', 'status', 'info/main/workers.html', 'json/counts.json', 'metrics'):
            with pytest.raises(urllib.error.HTTPError) as raised:
                urllib.request.urlopen(f'http://127.0.0.1:{port}/{page}', timeout=20)
            assert raised.value.code == 404


def test_every_item_is_done_with_the_payload(outcome, tasks, tmp_path):
    done = outcome(tasks.double)
    assert {item: one.value for item, one in done.items()} == {
        item: (str(tmp_path).encode(), 2 * item) for item in ITEMS
    }


def test_what_may_pass_is_tried_again(outcome, tasks):
    done = outcome(tasks.fail_first)
    assert not any(one.failure for one in done.values())


def test_without_retries_it_fails(outcome, tasks):
    done = outcome(tasks.fail_first, retries=0)
    assert {item for item, one in done.items() if one.failure} == {1, 3, 5, 7, 9, 11}
    assert done[1].failure == 'OSError: [Errno 5] the disk is asleep'


def test_one_failing_item_leaves_the_others_alone(outcome, tasks):
    done = outcome(tasks.always_fail)
    assert {item for item, one in done.items() if one.failure} == {3}
    assert done[3].failure == 'ValueError: no, not three'


def test_a_killed_worker_is_made_up_for(client, tasks, tmp_path):
    done = by_item(DaskExecutor(client, str(tmp_path).encode(), 1, 2).run(tasks.die_once, ITEMS))
    assert (tmp_path / 'died').exists()
    assert {item: one.value for item, one in done.items()} == dict(zip(ITEMS, ITEMS, strict=True))


@pytest.mark.soak
def test_the_item_that_kills_its_worker_is_found_and_no_other_given_up(client, tasks):
    require_third_is_found(client, tasks)


@pytest.mark.soak
def test_it_is_found_without_a_second_try(tasks):
    with local_client(2, 0) as client:
        require_third_is_found(client, tasks)


def require_third_is_found(client, tasks):
    done = by_item(DaskExecutor(client, b'', 0, 2).run(tasks.die_always, ITEMS))
    assert {item for item, one in done.items() if one.failure} == {3}
    assert 'killed' in done[3].failure


def test_the_payload_that_is_blamed_for_killed_workers_is_handed_out_again(client, tasks):
    engaged = DaskExecutor(client, b'all of it', 0, 2)
    engaged._payload = client.submit(tasks.blamed, b'', pure=False)
    done = by_item(engaged.run(tasks.double, ITEMS))
    assert {item: one.value for item, one in done.items()} == {
        item: (b'all of it', 2 * item) for item in ITEMS
    }


def test_what_has_been_handed_over_is_not_made_anew_where_a_worker_is_lost(client, tasks):
    def kept(dask_scheduler):
        return [key for key in dask_scheduler.tasks if 'double' in str(key)]

    run = DaskExecutor(client, b'', 0, 2).run(tasks.double, ITEMS)
    gc.disable()
    try:
        for number, _ in enumerate(run, 1):
            end = time.monotonic() + 60.0
            while len(client.run_on_scheduler(kept)) > len(ITEMS) - number:
                assert time.monotonic() < end, f'{number} items are done'
    finally:
        gc.enable()


def test_few_items_are_taken_ahead(client, tasks):
    taken = []

    def items():
        for item in range(50):
            taken.append(item)
            yield item

    engaged = DaskExecutor(client, b'', 0, 2)
    for count, _ in enumerate(engaged.run(tasks.double, items()), 1):
        assert len(taken) <= count + AHEAD * 2


def test_what_is_left_is_canceled_with_the_run(client, tasks, tmp_path):
    engaged = DaskExecutor(client, str(tmp_path).encode(), 0, 2)
    run = engaged.run(tasks.wait_for_mark, ITEMS)
    next(run)
    run.close()
    (tmp_path / 'go on').touch()
    assert len(by_item(engaged.run(tasks.double, ITEMS))) == len(ITEMS)
    begun = {int(path.name) for path in tmp_path.iterdir() if path.name.isdigit()}
    assert begun <= set(range(1 + AHEAD * 2))


@pytest.mark.skipif(platform.libc_ver()[0] != 'glibc', reason='another C library decides itself')
def test_workers_keep_memory_for_the_next_item(client, tasks):
    engaged = DaskExecutor(client, b'', 0, 2)
    pages = sorted(done.value for done in engaged.run(tasks.take_memory, range(8)))
    # but for the first item of each worker
    assert pages[-3] < 500


def test_a_worker_that_is_killed_before_the_first_item_is_made_up_for(client, tasks, tmp_path):
    os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
    engaged = DaskExecutor(client, str(tmp_path).encode(), RETRIES, 2)
    done = by_item(engaged.run(tasks.double, ITEMS))
    assert [done[item].value[1] for item in ITEMS] == [2 * item for item in ITEMS]


def test_a_cluster_that_has_lost_all_workers_is_given_up(monkeypatch, tasks):
    from distributed import Client, LocalCluster

    monkeypatch.setattr(executor, '_POLL_TIMEOUT', 0.1)
    monkeypatch.setattr(executor, '_LOST_TIMEOUT', 0.5)
    with LocalCluster(n_workers=0, dashboard_address=None) as cluster, Client(cluster) as client:
        engaged = DaskExecutor(client, b'', 0)
        with pytest.raises(IdentificationError, match='all workers are lost: see what ends them'):
            list(engaged.run(tasks.double, ITEMS))


def test_unknown_schedulers_are_refused():
    with pytest.raises(SettingsError, match="'slurm' is no scheduler: give dask, or the address"):
        open_executor('slurm', 1, b'').__enter__()


def test_an_address_where_nobody_is(monkeypatch):
    monkeypatch.setattr(executor, '_CONNECT_TIMEOUT', 1.0)
    with pytest.raises(IdentificationError, match=r'no Dask scheduler answers at tcp://127'):
        open_executor('tcp://127.0.0.1:9', 1, b'').__enter__()


class NoCluster:
    """A client of two workers: one that can do the work, and one with a given answer."""

    def __init__(self, answer):
        self.answer = answer

    def wait_for_workers(self, count, timeout):
        if self.answer is None:
            raise TimeoutError

    def run(self, function, on_error):
        return {'tcp://one': function(), 'tcp://two': self.answer}


@pytest.mark.parametrize(
    ('answer', 'text'),
    [
        (None, 'tcp://there has no workers: start some'),
        (ImportError('no module'), r'two cannot use robot_identification .* \(no module\): inst'),
        ('0.0.0', r'worker tcp://two cannot use robot_identification .* \(0\.0\.0\): install'),
    ],
)
def test_workers_that_cannot_do_the_work(answer, text):
    with pytest.raises(IdentificationError, match=text):
        executor._check_workers(NoCluster(answer), 'tcp://there')


def test_a_worker_that_is_lost_meanwhile_is_no_wrong_one():
    executor._check_workers(NoCluster(OSError('connection closed')), 'tcp://there')


def test_without_dask_this_process_does_the_work(monkeypatch, tasks):
    monkeypatch.setitem(sys.modules, 'distributed', None)
    with open_executor(None, None, b'') as engaged:
        assert (engaged.name, engaged.workers) == ('this process alone, without Dask', 1)
    for scheduler, workers in (('dask', 1), ('tcp://127.0.0.1:8786', None), (None, 2)):
        with pytest.raises(IdentificationError, match=r"'dask' is not installed: .*\[fleet\]"):
            open_executor(scheduler, workers, b'').__enter__()
