# SPDX-License-Identifier: Apache-2.0
"""Recordings in text files."""

import tracemalloc

import numpy as np
import pytest
from robot_identification.config.sources import open_recording
from robot_identification.data.drives import Drives
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.errors import RecordingError, SettingsError
from robot_identification.options.fields import from_mapping

JOINTS = ('a', 'b')
HEADER = ('t', 'q1', 'q2', 'v1', 'v2', 'c1', 'c2')
BY_NAME = {'time': 't', 'position': ['q1', 'q2'], 'velocity': ['v1', 'v2'], 'effort': ['c1', 'c2']}
BY_INDEX = {'time': 0, 'position': [1, 2], 'velocity': [3, 4], 'effort': [5, 6]}


def numbers(n_rows=200):
    table = 0.5 * np.random.default_rng(0).normal(size=(n_rows, 7))
    table[:, 0] = np.arange(n_rows) / 100.0
    return table


def write(path, table, delimiter=',', header=None):
    lines = [] if header is None else [delimiter.join(header)]
    lines += [delimiter.join(repr(float(x)) for x in row) for row in table]
    path.write_text('\n'.join(lines) + '\n')
    return path


def load(folder, entry, joints=JOINTS, drives=None, size=64):
    source = open_recording(
        from_mapping(RecordingEntry, entry, 'data.identification[0]'), joints, drives, folder
    )
    blocks = list(source.blocks(size))
    assert all(len(block) <= size for block in blocks)
    names = ('time', 'position', 'velocity', 'effort')
    parts = {name: [getattr(block, name) for block in blocks] for name in names}
    return {
        name: None if values[0] is None else np.concatenate(values)
        for name, values in parts.items()
    }


def matches(got, table):
    for name, columns in (
        ('time', 0),
        ('position', [1, 2]),
        ('velocity', [3, 4]),
        ('effort', [5, 6]),
    ):
        np.testing.assert_array_equal(got[name], table[:, columns])


@pytest.mark.parametrize('delimiter', [',', ';', '\t', ' ', '  '])
@pytest.mark.parametrize('header', [None, HEADER])
def test_delimiter_and_header_are_found_out(tmp_path, delimiter, header):
    table = numbers()
    write(tmp_path / 'run.csv', table, delimiter, header)
    matches(load(tmp_path, {'file': 'run.csv', **BY_INDEX}), table)
    if header:
        matches(load(tmp_path, {'file': 'run.csv', **BY_NAME}), table)


def test_what_numpy_and_spreadsheets_write_is_read(tmp_path):
    table = numbers(30)
    np.savetxt(tmp_path / 'numpy.csv', table, '%.18e', ',', header=','.join(HEADER))
    matches(load(tmp_path, {'file': 'numpy.csv', **BY_NAME}), table)
    rows = [','.join(f'"{name}"' for name in HEADER)]
    rows += [','.join(repr(float(x)) for x in row) for row in table]
    text = '\r\n'.join(['# made by hand', '', *rows[:10], '', *rows[10:]])  # no end of line at end
    (tmp_path / 'sheet.csv').write_bytes(b'\xef\xbb\xbf' + text.encode())
    matches(load(tmp_path, {'file': 'sheet.csv', **BY_NAME}), table)


def test_columns_are_taken_in_the_order_given(tmp_path):
    table = numbers()
    write(tmp_path / 'run.csv', table, header=HEADER)
    entry = {'file': 'run.csv', 'time': 't', 'position': ['q2', 'q1'], 'effort': ['c1', 'q1']}
    got = load(tmp_path, entry)
    np.testing.assert_array_equal(got['position'], table[:, [2, 1]])
    np.testing.assert_array_equal(got['effort'], table[:, [5, 1]])
    assert got['velocity'] is None


def test_unused_columns_need_not_be_numbers(tmp_path):
    (tmp_path / 'run.csv').write_text('date,q,c\nMonday,1,2\nTuesday,3,4\n')
    entry = {'file': 'run.csv', 'rate': 10.0, 'position': ['q'], 'effort': 'c'}
    got = load(tmp_path, entry, ('a',))
    np.testing.assert_array_equal(got['position'], [[1], [3]])
    np.testing.assert_array_equal(got['time'], [0.0, 0.1])


def test_signals_in_files_of_their_own(tmp_path):
    table = numbers()
    write(tmp_path / 'p.csv', table[:, 1:3], header=HEADER[1:3])
    write(tmp_path / 'c.csv', table[:, [5, 0, 6]])
    entry = {
        'rate': 100.0,
        'position': {'file': 'p.csv'},
        'effort': {'file': 'c.csv', 'columns': [0, 2]},
    }
    got = load(tmp_path, entry)
    np.testing.assert_array_equal(got['position'], table[:, 1:3])
    np.testing.assert_array_equal(got['effort'], table[:, 5:])
    np.testing.assert_allclose(got['time'], table[:, 0], atol=1e-15)


def test_files_of_different_lengths_are_refused(tmp_path):
    write(tmp_path / 'p.csv', numbers(200)[:, 1:3])
    write(tmp_path / 'c.csv', numbers(190)[:, 5:])
    entry = {'rate': 100.0, 'position': {'file': 'p.csv'}, 'effort': {'file': 'c.csv'}}
    with pytest.raises(RecordingError, match=r'c\.csv: has fewer rows than .*p\.csv'):
        load(tmp_path, entry)


@pytest.mark.parametrize(
    ('cut', 'expected'),
    [
        ({'rows': [10, 150]}, slice(10, 150)),
        ({'rows': [10, None]}, slice(10, 200)),
        ({'rows': [None, 3]}, slice(0, 3)),
        ({'time_range': [0.5, 1.2]}, slice(50, 121)),
        ({'time_range': [None, 0.1]}, slice(0, 11)),
        ({'rows': [100, 199], 'time_range': [0.0, 1.5]}, slice(100, 151)),
    ],
)
def test_cuts(tmp_path, cut, expected):
    table = numbers()
    write(tmp_path / 'run.csv', table, header=HEADER)
    matches(load(tmp_path, {'file': 'run.csv', **BY_NAME, **cut}), table[expected])


def test_damage_outside_the_cut_does_not_matter(tmp_path):
    table = numbers()
    table[5, 1], table[190, 5], table[3, 0] = np.nan, np.inf, 0.0
    write(tmp_path / 'run.csv', table)
    entry = {'file': 'run.csv', **BY_INDEX, 'rows': [10, 180]}
    matches(load(tmp_path, entry), table[10:180])


def test_drives_turn_the_columns_to_the_joints(tmp_path):
    table = numbers()
    write(tmp_path / 'run.csv', table)
    drives = from_mapping(
        Drives,
        {
            'position': {'matrix': [[0.5, 0.0], [0.0, -0.5]], 'offset': [1.0, 0.0]},
            'effort': {'matrix': [[2.0, 0.0, 0.0], [0.0, -2.0, 1.0]]},
        },
    )
    entry = {'file': 'run.csv', 'time': 0, 'position': [1, 2], 'effort': [5, 6, 3]}
    got = load(tmp_path, entry, drives=drives)
    np.testing.assert_allclose(got['position'], table[:, 1:3] * [0.5, -0.5] + [1.0, 0.0])
    np.testing.assert_allclose(got['effort'][:, 1], -2.0 * table[:, 6] + table[:, 3])
    with pytest.raises(SettingsError, match="'data.effort' has 2 columns, expected 3"):
        open_recording(
            from_mapping(RecordingEntry, {**entry, 'effort': [5, 6]}),
            JOINTS,
            drives,
            tmp_path,
            'data',
        )


def test_a_source_can_be_read_again_and_again(tmp_path):
    write(tmp_path / 'run.csv', numbers())
    source = open_recording(RecordingEntry(file='run.csv', **BY_INDEX), JOINTS, base=tmp_path)
    first = next(iter(source.blocks(10)))
    assert len(first) == 10
    assert [len(block) for block in source.blocks(150)] == [150, 50]
    assert [len(block) for block in source.blocks()] == [200]
    assert source.joints == JOINTS
    assert source.source == 'run.csv'


def test_the_duration_is_about_right(tmp_path):
    write(tmp_path / 'run.csv', numbers(3000), header=HEADER)
    for more in ({}, {'time': None, 'rate': 100.0}):
        entry = from_mapping(RecordingEntry, {'file': 'run.csv', **BY_NAME, **more})
        source = open_recording(entry, JOINTS, base=tmp_path)
        assert source.duration == pytest.approx(30.0, rel=0.02)


@pytest.mark.parametrize('delimiter', [';', '\t', ' '])
@pytest.mark.parametrize('whole', [False, True])
def test_decimal_commas(tmp_path, delimiter, whole):
    """The first row may have whole numbers alone."""
    table = numbers()
    if whole:
        table[0] = np.rint(table[0])
    write(tmp_path / 'run.csv', table, delimiter, HEADER)
    text = (tmp_path / 'run.csv').read_text()
    text = text.replace('.0' + delimiter, delimiter) if whole else text
    (tmp_path / 'run.csv').write_text(text.replace('.', ','))
    matches(load(tmp_path, {'file': 'run.csv', **BY_NAME}), table)


def test_points_beside_commas_are_refused(tmp_path):
    """A comma may stand between thousands."""
    (tmp_path / 'run.csv').write_text('q;c\n1.5;2,500\n2.5;3.5\n')
    entry = {'file': 'run.csv', 'rate': 1.0, 'position': 'q', 'effort': 'c', 'delimiter': ';'}
    error, _ = refused(tmp_path, entry, joints=('a',))
    assert error.value == '2,500'
    assert 'decimal point' in error.remedy


@pytest.mark.parametrize('first', ['sep=;', '"sep=;"', '\ufeffsep=;', 'sep=,', 'sep=\t'])
@pytest.mark.parametrize('header', [None, HEADER])
def test_the_separator_line_of_spreadsheets_is_passed_over(tmp_path, first, header):
    table = numbers(20)
    write(tmp_path / 'run.csv', table, first.strip('"')[-1], header)
    text = (tmp_path / 'run.csv').read_text()
    (tmp_path / 'run.csv').write_bytes(f'{first}\r\n{text}'.encode())
    matches(load(tmp_path, {'file': 'run.csv', **(BY_NAME if header else BY_INDEX)}), table)


@pytest.mark.parametrize('time', [['t', 'rest'], [0, 3]])
def test_seconds_and_nanoseconds(tmp_path, time):
    """Since 1970, to the 0.2 us that float64 has left there."""
    rest = np.array([999_999_998, 3_000_000, 5_000_000])
    whole = 1_700_000_000 + np.array([0, 1, 1])
    rows = [f'{w},0.5,1.5,{r}' for w, r in zip(whole, rest, strict=True)]
    (tmp_path / 'run.csv').write_text('\n'.join(['t,q,c,rest', *rows]))
    entry = {'file': 'run.csv', 'time': time, 'position': [1], 'effort': [2]}
    got = load(tmp_path, entry, ('a',))
    np.testing.assert_allclose(np.diff(got['time']), [0.003000002, 0.002], atol=1e-6)
    assert got['time'][0] == pytest.approx(1_700_000_000.999999998, abs=1e-6)


def echoed(table, names=('b', 'a'), frame=''):
    """Return lines of `ros2 topic echo --csv`, joints in their own order."""
    order = [JOINTS.index(name) for name in names]
    return [
        ','.join(
            [
                *(str(part) for part in divmod(round(1e9 * row[0]) + 17 * 10**17, 10**9)),
                *(frame, *names),
                *(repr(float(row[1 + 2 * signal + j])) for signal in range(3) for j in order),
            ]
        )
        for row in table
    ]


@pytest.mark.parametrize('frame', ['', 'base_link'])
def test_the_output_of_topic_echo_is_read_by_the_names_in_it(tmp_path, frame):
    table = numbers()
    (tmp_path / 'run.csv').write_text('\n'.join(echoed(table, frame=frame)))
    signals = {
        signal: [f'{joint}.{signal}' for joint in JOINTS]
        for signal in ('position', 'velocity', 'effort')
    }
    got = load(tmp_path, {'file': 'run.csv', 'time': ['sec', 'nanosec'], **signals})
    table[:, 0] = got['time']
    matches(got, table)
    np.testing.assert_allclose(np.diff(got['time']), 0.01, atol=1e-6)


def test_two_publishers_in_the_output_of_topic_echo_are_named(tmp_path):
    lines = echoed(numbers())
    entry = {'file': 'run.csv', 'rate': 10.0, 'position': 'a.position', 'effort': 'a.effort'}
    for other in ('1700000000,5,,b,a,0.0,0.0', lines[7].replace(',b,a,', ',a,b,')):
        (tmp_path / 'run.csv').write_text('\n'.join([*lines[:7], other, *lines[8:]]))
        error, _ = refused(tmp_path, entry, joints=('a',))
        assert 'row 7' in str(error) and 'record a bag' in error.remedy


def test_topic_echo_for_people_is_named(tmp_path):
    (tmp_path / 'run.txt').write_text('header:\n  stamp:\n    sec: 1\nname:\n- a\n---\n')
    error, _ = refused(tmp_path, {'file': 'run.txt', **BY_INDEX})
    assert '--csv' in error.remedy and 'ros2 bag record' in error.remedy


def test_stamps_in_another_unit_are_named_by_their_size(tmp_path):
    table = numbers(5)
    table[:, 0] = 17e17 + 1e7 * np.arange(5)
    write(tmp_path / 'run.csv', table, header=HEADER)
    error, _ = refused(tmp_path, {'file': 'run.csv', **BY_NAME})
    assert 'time_unit' in error.remedy


def test_memory_does_not_grow_with_the_file(tmp_path):
    table = numbers(1000)

    def peak(repetitions):
        text = write(tmp_path / 'part.csv', table).read_text()
        (tmp_path / 'run.csv').write_text(text * repetitions)
        entry = {'rate': 100.0, 'position': [1, 2], 'effort': [5, 6], 'file': 'run.csv'}
        source = open_recording(from_mapping(RecordingEntry, entry), JOINTS, base=tmp_path)
        tracemalloc.start()
        rows = sum(len(block) for block in source.blocks(1000))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert rows == 1000 * repetitions
        return most

    assert peak(40) < 1.2 * peak(4)


def refused(folder, entry, kind=RecordingError, joints=JOINTS):
    with pytest.raises(kind) as error:
        load(folder, entry, joints)
    text = str(error.value)
    assert '\n' not in text
    assert error.value.remedy
    return error.value, text


def broken(tmp_path, row, cell, text):
    """Write a file in which one cell holds ``text``."""
    lines = write(tmp_path / 'run.csv', numbers(), header=HEADER).read_text().splitlines()
    cells = lines[row + 1].split(',')
    cells[cell] = text
    lines[row + 1] = ','.join(cells)
    (tmp_path / 'run.csv').write_text('\n'.join(lines))
    return {'file': 'run.csv', **BY_NAME}


@pytest.mark.parametrize('row', [0, 150])
@pytest.mark.parametrize('text', ['abc', '', '1.5.2', '--'])
def test_a_cell_that_is_no_number_is_named(tmp_path, row, text):
    error, shown = refused(tmp_path, broken(tmp_path, row, 6, text))
    assert f"'{text}' in row {row}, column 'c2'" in shown
    assert error.file.endswith('run.csv')


@pytest.mark.parametrize('text', ['nan', 'NaN', 'inf', '-inf'])
def test_a_value_that_is_not_finite_is_named(tmp_path, text):
    error, shown = refused(tmp_path, broken(tmp_path, 150, 2, text))
    assert f"position 'q2' is {float(text)} in row 150" in shown


def test_a_cut_line_is_named(tmp_path):
    entry = broken(tmp_path, 199, 0, '1.99')
    text = (tmp_path / 'run.csv').read_text()
    (tmp_path / 'run.csv').write_text(text[: text.rindex(',', 0, text.rindex(','))])
    _, shown = refused(tmp_path, entry)
    assert 'row 199 has 5 columns, expected 7' in shown


@pytest.mark.parametrize(
    ('row', 'stamp', 'text'),
    [
        (100, '0.5', 'time stamp 0.5 s in row 100 goes back in time'),
        (100, '0.99', 'time stamp 0.99 s in row 100 occurs twice'),
        (64, '0.63', 'time stamp 0.63 s in row 64 occurs twice'),  # first row of a block
    ],
)
def test_unsorted_and_duplicated_stamps_are_named(tmp_path, row, stamp, text):
    error, shown = refused(tmp_path, broken(tmp_path, row, 0, stamp))
    assert text in shown
    assert error.value == float(stamp)


def test_missing_columns_list_what_there_is(tmp_path):
    write(tmp_path / 'run.csv', numbers(), header=HEADER)
    _, shown = refused(tmp_path, {'file': 'run.csv', **BY_NAME, 'effort': ['c1', 'c3']})
    assert "no column 'c3'" in shown
    assert 't, q1, q2, v1, v2, c1, c2' in shown
    _, shown = refused(tmp_path, {'file': 'run.csv', **BY_NAME, 'effort': [5, 7]})
    assert "no column '7'" in shown
    write(tmp_path / 'run.csv', numbers())
    _, shown = refused(tmp_path, {'file': 'run.csv', **BY_NAME})
    assert 'no header; columns are 0 to 6' in shown


def test_wrong_numbers_of_columns_name_the_key(tmp_path):
    write(tmp_path / 'run.csv', numbers(), header=HEADER)
    entry = {'file': 'run.csv', **BY_NAME, 'position': ['q1']}
    error, shown = refused(tmp_path, entry, SettingsError)
    assert "'position' has 1 columns, expected 2" in shown
    write(tmp_path / 'p.csv', numbers()[:, :3])
    entry = {'rate': 1.0, 'position': {'file': 'p.csv'}, 'effort': {'file': 'p.csv'}}
    _, shown = refused(tmp_path, entry)
    assert 'position has 3 columns, expected 2' in shown


def test_empty_files_and_cuts_are_refused(tmp_path):
    (tmp_path / 'run.csv').write_text('\n\n')
    assert 'is empty' in refused(tmp_path, {'file': 'run.csv', **BY_NAME})[1]
    (tmp_path / 'run.csv').write_text(','.join(HEADER) + '\n')
    assert 'no samples' in refused(tmp_path, {'file': 'run.csv', **BY_NAME})[1]
    write(tmp_path / 'run.csv', numbers())
    error, shown = refused(tmp_path, {'file': 'run.csv', **BY_INDEX, 'rows': [500, 600]})
    assert 'no samples' in shown
    assert 'widen' in error.remedy


# ---------------------------------------------------------------------- what other programs write


@pytest.mark.parametrize('delimiter', [',', ';', '\t'])
def test_quotes_around_every_cell(tmp_path, delimiter):
    table = numbers()
    lines = [HEADER, *table.tolist()]
    text = '\n'.join(delimiter.join(f'"{cell}"' for cell in line) for line in lines)
    (tmp_path / 'r.csv').write_text(text)
    matches(load(tmp_path, {'file': 'r.csv', **BY_NAME}), table)


def test_delimiter_within_a_quoted_name(tmp_path):
    table = numbers()
    write(tmp_path / 'r.csv', table, header=['"t, s"', *(f'"{name}, x"' for name in HEADER[1:])])
    entry = {'file': 'r.csv', 'time': 't, s', 'position': ['q1, x', 'q2, x']}
    got = load(tmp_path, {**entry, 'effort': ['c1, x', 'c2, x']})
    np.testing.assert_array_equal(got['effort'], table[:, [5, 6]])


@pytest.mark.parametrize('index', [False, True])
def test_header_that_numbers_the_columns(tmp_path, index):
    """An array that went through a data frame; the header is no sample."""
    table = numbers()
    lines = [','.join(map(str, range(7))), *(','.join(map(repr, row)) for row in table.tolist())]
    if index:
        lines = [',' + lines[0], *(f'{i},{line}' for i, line in enumerate(lines[1:]))]
    (tmp_path / 'r.csv').write_text('\n'.join(lines))
    names = {
        key: str(i) if isinstance(i, int) else list(map(str, i)) for key, i in BY_INDEX.items()
    }
    matches(load(tmp_path, {'file': 'r.csv', **names}), table)
    if not index:
        matches(load(tmp_path, {'file': 'r.csv', **BY_INDEX}), table)


@pytest.mark.parametrize('delimiter', [',', ';'])
def test_delimiter_at_the_end_of_rows_but_not_of_the_header(tmp_path, delimiter):
    table = numbers()
    write(tmp_path / 'r.csv', table, delimiter, HEADER)
    head, *rows = (tmp_path / 'r.csv').read_text().splitlines()
    (tmp_path / 'r.csv').write_text('\n'.join([head, *(row + delimiter for row in rows)]))
    matches(load(tmp_path, {'file': 'r.csv', **BY_NAME}), table)


def test_name_that_occurs_twice(tmp_path):
    write(tmp_path / 'r.csv', numbers(), header=['t', 'q1', 'q2', 'v1', 'v2', 'q1', 'c2'])
    with pytest.raises(RecordingError, match="several columns 'q1'.*index"):
        load(tmp_path, {'file': 'r.csv', **{**BY_NAME, 'effort': [5, 6]}})


@pytest.mark.parametrize('content', [b't,q1\n0.0,\x00\x01\x02', 't,q1\n0,1\n'.encode('utf-16')])
def test_file_that_is_no_text(tmp_path, content):
    (tmp_path / 'r.csv').write_bytes(content)
    with pytest.raises(RecordingError, match='no text in UTF-8|is text in UTF-16') as error:
        load(tmp_path, {'file': 'r.csv', **BY_NAME})
    assert str(error.value).isprintable()


def test_decimal_commas_between_commas(tmp_path):
    (tmp_path / 'r.csv').write_text(','.join(HEADER) + '\n' + '0,5,' * 6 + '0,5\n')
    with pytest.raises(RecordingError, match='row 0 has 14 columns, expected 7.*decimal point'):
        load(tmp_path, {'file': 'r.csv', **BY_NAME})


@pytest.mark.parametrize('cell', ['1' * 200_000, '"' + '1' * 200_000 + '"', 'x' * 200_000])
@pytest.mark.parametrize('row', [0, 1, 2])
def test_huge_cells_are_refused_in_a_short_line(tmp_path, cell, row):
    lines = ['t,a,b', '0.0,1,2', '0.1,3,4']
    lines[row] = f'{cell},a,b'
    (tmp_path / 'run.csv').write_text('\n'.join(lines))
    entry = {'file': 'run.csv', 'time': 't', 'position': ['a'], 'effort': ['b']}
    source = open_recording(from_mapping(RecordingEntry, entry), ('joint',), base=tmp_path)
    with pytest.raises(RecordingError) as caught:
        list(source.blocks())
    assert len(str(caught.value)) < 5000 and '\n' not in str(caught.value)


def test_a_line_without_end_is_not_read(tmp_path):
    with (tmp_path / 'run.csv').open('wb') as stream:
        stream.truncate(3 << 30)  # zeros, which take no room on the disk
        stream.seek(0)
        stream.write(b'1' * (2 << 20))
    entry = {'file': 'run.csv', 'time': 0, 'position': [1], 'effort': [2]}
    source = open_recording(from_mapping(RecordingEntry, entry), ('joint',), base=tmp_path)
    with pytest.raises(RecordingError, match='a line of more than'):
        list(source.blocks())


@pytest.mark.parametrize('delimiter', ['', 'ab', '"', '#', '1', '.', '\n', 'e'])
def test_delimiters_that_cannot_be_any(tmp_path, delimiter):
    (tmp_path / 'run.csv').write_text('0,1,2\n1,2,3\n')
    entry = {
        'file': 'run.csv', 'time': 0, 'position': [1], 'effort': [2], 'delimiter': delimiter,
    }  # fmt: skip
    with pytest.raises(SettingsError, match="'delimiter' is"):
        open_recording(from_mapping(RecordingEntry, entry), ('joint',), base=tmp_path)


def test_quotes_that_join_cells_are_named_by_row(tmp_path):
    (tmp_path / 'run.csv').write_text('t,a,b\n0.0,1,2\n0.1,"3,4"\n')
    entry = {'file': 'run.csv', 'time': 't', 'position': ['a'], 'effort': ['b']}
    source = open_recording(from_mapping(RecordingEntry, entry), ('joint',), base=tmp_path)
    with pytest.raises(RecordingError, match="in row 1, column '[ab]' is not a number"):
        list(source.blocks())


@pytest.mark.parametrize('value', ['1e308', '-1e13', 'inf', 'nan'])
def test_values_that_no_robot_has_are_named(tmp_path, value):
    (tmp_path / 'run.csv').write_text(f't,a,b\n0.0,1,2\n0.1,3,{value}\n0.2,1,2\n')
    entry = {'file': 'run.csv', 'time': 't', 'position': ['a'], 'effort': ['b']}
    source = open_recording(from_mapping(RecordingEntry, entry), ('joint',), base=tmp_path)
    with pytest.raises(RecordingError, match="effort 'b' is .* in row 1, at 0.1 s"):
        list(source.blocks())


@pytest.mark.parametrize('name', ['run.csv', 'run.dat', 'run'])
@pytest.mark.parametrize(
    ('head', 'words'),
    [
        (b'\x89MCAP0\r\n', ': rename it to run.mcap'),
        (b'SQLite format 3\0', ': rename it to run.db3'),
        (b'PK\x03\x04', ': save it as CSV, or rename'),
    ],
)
def test_a_file_of_another_kind_is_named_by_its_content(tmp_path, name, head, words):
    path = tmp_path / name
    path.write_bytes(head + bytes(100))
    with pytest.raises((RecordingError, SettingsError), match=words):
        list(open_recording(RecordingEntry(file=str(path), **BY_INDEX), JOINTS).blocks())


@pytest.mark.parametrize(
    ('form', 'first'),
    [
        ('{h:02}:{m:02}:{s:06.3f}', 86395.0),
        ('{h}:{m:02}:{s:06.3f}', 32_395.0),
        ('"2026-03-05 {h:02}:{m:02}:{s:06.3f}"', 50_527.0),
        ('2026-03-05T{h:02}:{m:02}:{s:012.9f}Z', 50_527.0),
        ('2026-03-05T{h:02}:{m:02}:{s:06.3f}+01:00', 50_527.0),
    ],
)
@pytest.mark.parametrize('delimiter', [',', ';'])
def test_times_of_day_and_dates_are_read_as_seconds(tmp_path, form, first, delimiter):
    """The first one passes midnight, in the middle of a block."""
    table = numbers(1000)
    lines = [delimiter.join(HEADER)]
    for row in table:
        clock = round(first + row[0], 3) % 86400.0
        cells = [form.format(h=int(clock // 3600), m=int(clock % 3600 // 60), s=clock % 60.0)]
        lines.append(delimiter.join([*cells, *(repr(float(x)) for x in row[1:])]))
    text = '\n'.join(lines)
    (tmp_path / 'run.csv').write_text(text if delimiter == ',' else text.replace('.', ','))
    got = load(tmp_path, {'file': 'run.csv', **BY_NAME})
    np.testing.assert_allclose(got['time'] - got['time'][0], table[:, 0], atol=1e-6)
    np.testing.assert_array_equal(got['effort'], table[:, 5:])


def test_a_cell_that_is_no_time_of_day_is_named(tmp_path):
    lines = [','.join(HEADER), '14:02:07.1,1,2,3,4,5,6', '14:62:07.2,1,2,3,4,5,6']
    (tmp_path / 'run.csv').write_text('\n'.join(lines))
    with pytest.raises(RecordingError, match="'14:62:07.2' in row 1, column 't' is not a number"):
        load(tmp_path, {'file': 'run.csv', **BY_NAME})
