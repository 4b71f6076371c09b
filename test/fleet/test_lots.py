# SPDX-License-Identifier: Apache-2.0
"""Lots of items: how many are sent, and how large they are."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from robot_identification.fleet.lots import (
    LOT_SECONDS,
    Lots,
    SENT,
    work_on,
)

WORKERS = 2


def test_lots_are_as_long_as_they_should_be_and_get_smaller_towards_the_end():
    sent: list[tuple[list, Future]] = []

    def send(task, items):
        sent.append((list(items), Future()))
        return sent[-1][1]

    lots = Lots(send)
    futures = [lots.add(int, number, alone=False) for number in range(60)]
    sizes = []
    while not all(future.done() for future in futures):
        lots.dispatch(WORKERS)
        under_way = [entry for entry in sent if not entry[1].done()]
        assert 0 < len(under_way) <= SENT * WORKERS
        items, call = under_way[0]
        sizes.append(len(items))
        # a fifth of a lot's time each, so that five are one
        call.set_result(([(item, None) for item in items], 0.2 * LOT_SECONDS * len(items)))
    assert [future.result() for future in futures] == list(range(60))
    assert sizes[0] == 1 and max(sizes) >= 4 and sizes[-1] == 1
    end = sizes[sizes.index(max(sizes)) :]
    assert end == sorted(end, reverse=True)
    assert lots.size == pytest.approx(5, abs=1)


def test_one_that_has_to_be_alone_is():
    sent = []
    lots = Lots(lambda task, items: sent.append(list(items)) or Future())
    for number in range(3):
        lots.add(int, number, alone=number == 1)
    lots.dispatch(WORKERS)
    assert [1] in sent


def test_a_failure_is_its_items_alone():
    outcomes, _ = work_on(b'', lambda payload, item: 1 // item, [1, 0])
    assert outcomes[0] == (1, None)
    assert isinstance(outcomes[1][1], ZeroDivisionError)
