# SPDX-License-Identifier: Apache-2.0
"""
Carry out a task for many items, through lost workers and transient failures.

Few items are under way at a time, so that memory stays bounded however many there are.  When a
process is lost, all that were under way may be the culprit: they are tried again, and those that
were there each time are tried alone in the end, so that no item is given up for another's fault.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from ..errors import IdentificationError
from .crew import Crew, Task
from .lots import LotLostError

_POLL_TIMEOUT = 3.0
"""Time without anything finished after which the workers are looked after [s]."""


@dataclass(frozen=True)
class Done:
    """
    Outcome of one item.

    Attributes
    ----------
    item:
        The item.
    value:
        What the task returned; None where it failed.
    failure:
        Why it failed, in one line; empty where it did not.
    attempts:
        How often it was tried.

    """

    item: Any
    value: Any = None
    failure: str = ''
    attempts: int = 1


@dataclass
class _Item:
    """An item on its way."""

    value: Any
    attempts: int = 0
    losses: int = 0
    alone: bool = False


def carry_out(crew: Crew, task: Task, items: Iterable[Any], *, retries: int = 2) -> Iterator[Done]:
    """
    Do a task for every item.

    Parameters
    ----------
    crew:
        Who does it.
    task:
        A function of a module, called with the crew's payload and an item.  What it raises counts
        as transient, so what is wrong for good has to be returned.
    items:
        Taken one by one as workers get free.
    retries:
        How often an item that failed is tried again.

    Yields
    ------
    Each item once, in the order in which they are done.

    Raises
    ------
    IdentificationError
        where the scheduler itself is lost.

    """
    waiting = iter(items)
    again: deque[_Item] = deque()
    suspects: list[_Item] = []
    under_way: dict[Future, _Item] = {}
    try:
        while True:
            lost = _fill(crew, task, waiting, again, under_way)
            if not under_way and not lost:
                break
            finished = _some_of(crew, under_way) if not lost else ()
            for future in finished:
                item = under_way.pop(future)
                done, broken = _outcome(future, item, retries)
                if broken:
                    under_way[future] = item
                    lost = True
                elif done is None:
                    (again if item.losses <= retries else suspects).append(item)
                else:
                    yield done
            if lost:
                yield from _recover(crew, under_way, again, suspects, retries)
        yield from _alone(crew, task, suspects, retries)
    finally:
        for future in under_way:
            future.cancel()


def _some_of(crew: Crew, under_way: Iterable[Future]) -> Iterable[Future]:
    """Wait until some of what is under way is finished."""
    while not (finished := wait(under_way, _POLL_TIMEOUT, FIRST_COMPLETED)[0]):
        crew.look_after()
    return finished


def _fill(
    crew: Crew,
    task: Task,
    waiting: Iterator[Any],
    again: deque[_Item],
    under_way: dict[Future, _Item],
) -> bool:
    """Give the workers enough to do; return whether one of them was found lost."""
    limit = crew.workers * crew.ahead
    while len(under_way) < limit:
        if again:
            item = again.popleft()
        else:
            try:
                item = _Item(next(waiting))
            except StopIteration:
                break
        try:
            under_way[crew.submit(task, item.value, alone=item.alone)] = item
        except BrokenProcessPool:
            again.appendleft(item)
            return True
    crew.dispatch()
    return False


def _outcome(future: Future, item: _Item, retries: int) -> tuple[Done | None, bool]:
    """Return what came of an item, None to try it again; and whether its worker was lost."""
    try:
        value = future.result()
    except BrokenProcessPool:
        return None, True
    except CancelledError as error:
        raise IdentificationError(
            'the scheduler was lost',
            remedy='start it again, and run the same command to go on with what is left',
        ) from error
    except Exception as error:  # whatever it is, the other recordings can go on
        if isinstance(error, LotLostError) or type(error).__name__ == 'KilledWorker':
            item.losses += 1
            item.alone = True
            return None, False
        item.attempts += 1
        if item.attempts <= retries:
            return None, False
        return Done(item.value, failure=_reason(error), attempts=item.attempts), False
    return Done(item.value, value, attempts=item.attempts + 1), False


def _recover(
    crew: Crew,
    under_way: dict[Future, _Item],
    again: deque[_Item],
    suspects: list[_Item],
    retries: int,
) -> Iterator[Done]:
    """Keep what was finished before a worker was lost, and give the rest out again."""
    left = list(under_way.items())
    under_way.clear()
    for future, item in left:
        if future.done() and not future.cancelled() and future.exception() is None:
            yield Done(item.value, future.result(), attempts=item.attempts + 1)
            continue
        item.losses += 1
        (again if item.losses <= retries else suspects).append(item)
    crew.renew()


def _alone(crew: Crew, task: Task, suspects: list[_Item], retries: int) -> Iterator[Done]:
    """Try items one at a time: one that loses its worker now is the culprit."""
    if not suspects:
        return
    with crew.single() as one:
        while suspects:
            item = suspects.pop()
            try:
                future = one.submit(task, item.value, alone=True)
            except BrokenProcessPool:
                one.renew()
                future = one.submit(task, item.value, alone=True)
            one.dispatch()
            losses = item.losses
            while not wait([future], _POLL_TIMEOUT)[0]:
                one.look_after()
            done, broken = _outcome(future, item, retries)
            if broken:
                one.renew()
            if broken or item.losses > losses:
                attempts = item.attempts + item.losses + 1
                yield Done(item.value, failure=_KILLED, attempts=attempts)
            elif done is None:
                suspects.append(item)
            else:
                yield done


_KILLED = 'the process that worked on it was killed, each time (out of memory?)'


def _reason(error: BaseException) -> str:
    text = ' '.join(str(error).split())
    return f'{type(error).__name__}: {text}' if text else type(error).__name__
