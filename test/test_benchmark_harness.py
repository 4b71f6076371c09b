# SPDX-License-Identifier: Apache-2.0
"""The harness on which every bound of the benchmarks rests."""

import pytest

from benchmarks.harness import Figure, interleaved, ratio, Timing


@pytest.mark.parametrize(
    ('value', 'bounds', 'met'),
    [
        (2.0, {}, True),
        (2.0, {'at_most': 2.0}, True),
        (2.1, {'at_most': 2.0}, False),
        (2.0, {'at_least': 2.0}, True),
        (1.9, {'at_least': 2.0}, False),
        (3.0, {'at_least': 2.0, 'at_most': 2.5}, False),
        (float('nan'), {'at_most': 2.0}, False),
    ],
)
def test_figure_knows_whether_it_keeps_its_bounds(value, bounds, met):
    assert Figure('figure', value, **bounds).met is met


def test_bound_is_told_in_words():
    assert Figure('figure', 1.0, at_least=0.5, at_most=2.0).bound == 'at least 0.5, at most 2'
    assert Figure('figure', 1.0).bound == ''


def test_works_have_their_turns_and_first_rounds_do_not_count():
    turns = []
    works = {'a': lambda: turns.append('a'), 'b': lambda: turns.append('b')}
    found = interleaved(works, repeats=3, warm=2)
    assert turns == ['a', 'b'] * 5
    assert [len(found[name].seconds) for name in works] == [3, 3]


def test_any_clock_tells_the_time():
    now = [0.0]

    def work():
        now[0] += 3.0

    assert interleaved({'a': work}, repeats=2, clock=lambda: now[0])['a'].seconds == (3.0, 3.0)


def test_ratio_is_the_median_of_the_rounds_ratios():
    # the ratio of the medians would be 3
    assert ratio(Timing((1.0, 3.0, 8.0)), Timing((1.0, 1.0, 4.0))) == 2.0
