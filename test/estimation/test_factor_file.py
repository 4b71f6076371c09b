# SPDX-License-Identifier: Apache-2.0
"""Files of factors: the same numbers back, and clear words for what is no such file."""

from dataclasses import fields, replace
import io
import json
import os
import pickle
import warnings
import zipfile

import numpy as np
import pytest
from robot_identification.data.drives import Drives, EffortDrive
from robot_identification.errors import (
    IdentificationError,
    IdentificationWarning,
    SettingsError,
)
from robot_identification.estimation.factor import ModelSignature
from robot_identification.estimation.factor_file import (
    FactorSettings,
    merge_stored,
    Origin,
    pack,
    read_factor,
    StoredFactor,
    unpack,
    write_factor,
    write_factors,
)
from robot_identification.estimation.system import from_rows
from robot_identification.estimation.time_blocks import JointRows, TimeBlocks
from robot_identification.regressor import ModelSettings
from robot_identification.signals import SignalSettings

from ..estimation.conftest import plain_structure

N, B = 3, 6
SETTINGS = FactorSettings(
    ModelSettings(friction=('viscous',)),
    SignalSettings(cutoff=12.5),
    effort_kind='motor_current',
    drives=Drives(effort=EffortDrive(matrix=((3.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.0, 0.0, 1.0)))),
)
ROBOT = {'name': 'arm', 'urdf': '<robot name="arm"/>', 'joints': ['a', 'b', 'c']}
ARRAYS = (
    'triangles',
    'rows',
    'independent_rows',
    'available_rows',
    'column_sums',
    'effort_sums',
    'raw_gram',
    'position_range',
    'driven',
)


def make_factor(seed=0, samples=50, structure=None):
    """Factor in which joint j does not see the first j columns; the last one is not driven."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(samples, N, B))
    for j in range(N):
        matrix[:, j, :j] = 0.0
    effort = matrix @ rng.normal(size=B) + 0.1 * rng.normal(size=(samples, N))
    keep = rng.random((samples, N)) < 0.8
    driven = np.array([True, True, False])
    structure = structure or plain_structure(B)
    factor = from_rows(structure, ('a', 'b', 'c'), matrix, effort, keep, driven=driven).factor
    known = replace(
        factor.fingerprint, settings=SETTINGS.to_mapping(), rows=np.arange(4.0 * N).reshape(N, 4)
    )
    return replace(factor, fingerprint=known, independent_rows=factor.rows / 3.0)


def make_stored(seed=0, **options):
    origin = Origin(f'Läufe/run {seed}.mcap', 1.7e9 + seed, 12.25)
    return StoredFactor(make_factor(seed, **options), SETTINGS, ROBOT, (origin,), 'arm')


@pytest.fixture
def stored():
    return make_stored()


def assert_equal(one, two):
    """Hold stored factors together, bit by bit."""
    for name in ARRAYS:
        mine, other = getattr(one.factor, name), getattr(two.factor, name)
        assert np.array_equal(mine, other) and mine.dtype == other.dtype, name
    assert one.factor.raw_rows == two.factor.raw_rows
    assert one.factor.fingerprint.difference(two.factor.fingerprint) is None
    assert (one.settings, one.robot, one.origins, one.name) == (
        two.settings,
        two.robot,
        two.origins,
        two.name,
    )


def changed(data, part=None, edit=None, header=None):
    """Return the file with one array, or the header, as other functions make them of their own."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, 'w') as new:
        for name in old.namelist():
            content = old.read(name)
            if header is not None and name == 'header.json':
                document = json.loads(content)
                header(document)
                content = json.dumps(document).encode()
            if name == part:
                content = edit(content)
                if content is None:
                    continue
            new.writestr(name, content)
    return stream.getvalue()


def npy(array, **options):
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def test_file_gives_every_bit_back(stored, tmp_path):
    path = tmp_path / 'run.factor'
    write_factor(stored, path)
    assert_equal(read_factor(path), stored)
    assert list(tmp_path.iterdir()) == [path]
    assert pack(read_factor(path)) == path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        # nor does the day of writing show
        assert {part.date_time for part in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_sums_come_back_where_rows_have_cancelled(stored):
    sums = np.array(stored.factor.column_sums)
    sums[2, 0] = 1e-17  # joint 2 has nothing else in this column
    assert not stored.factor.triangles[2, :, 0].any()
    odd = replace(stored, factor=replace(stored.factor, column_sums=sums))
    assert_equal(unpack(pack(odd)), odd)


def test_merged_and_empty_factors_come_back(stored):
    merged = merge_stored([stored, make_stored(1)])
    assert_equal(unpack(pack(merged)), merged)
    assert [origin.name for origin in merged.origins] == ['Läufe/run 0.mcap', 'Läufe/run 1.mcap']
    kept = ('fingerprint', 'driven')
    names = [f.name for f in fields(stored.factor) if f.name not in kept]
    nothing = replace(stored.factor, **{n: 0 * getattr(stored.factor, n) for n in names})
    empty = replace(stored, factor=nothing, origins=())
    assert_equal(unpack(pack(empty)), empty)
    assert_equal(unpack(pack(empty.merge(stored))), stored)


def test_merging_files_is_merging_factors(stored, tmp_path):
    others = [make_stored(seed) for seed in range(1, 5)]
    (path, merged), *rest = write_factors([stored, *others], tmp_path / 'all.factor')
    assert not rest and path.name == 'all.factor'
    assert_equal(read_factor(path), merged)
    total = stored.factor
    for other in others:
        total = total.merge(other.factor)
    assert np.allclose(merged.factor.triangles, total.triangles, rtol=1e-10, atol=1e-12)


def test_recording_that_is_counted_twice_is_told(stored):
    origin = stored.origins[0]
    assert origin.start is not None
    with pytest.warns(IdentificationWarning, match=f"'{origin.name}' is counted 2 times"):
        merge_stored([stored, stored])
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        later = replace(stored, origins=(replace(origin, start=origin.start + 60.0),))
        unknown = replace(stored, origins=(replace(origin, start=None),))
        merge_stored([stored, later, unknown, unknown])


def test_files_are_called_as_their_recordings(stored, tmp_path):
    paths = [path.name for path, _ in write_factors([stored, make_stored(1), stored], tmp_path)]
    assert paths == ['run 0.factor', 'run 1.factor', 'run 0-2.factor']


def test_columns_that_a_joint_does_not_see_take_no_room(stored):
    size = len(pack(stored))
    dense = np.random.default_rng(1).normal(size=(50, N, B))
    full = from_rows(plain_structure(B), ('a', 'b', 'c'), dense, dense[:, :, 0]).factor
    full = replace(full, fingerprint=stored.factor.fingerprint)
    # joint b misses one of seven columns, joint c two: 7 and 13 of 28 entries, in two triangles,
    # and three sums
    assert len(pack(replace(stored, factor=full))) - size == 8 * (2 * (7 + 13) + 3)


def test_numpy_and_any_json_reader_will_do(stored, tmp_path):
    write_factor(stored, tmp_path / 'run.factor')
    with np.load(tmp_path / 'run.factor') as file:
        assert np.array_equal(file['rows'], stored.factor.rows)
        header = json.loads(file['header.json'])
    assert header['robot_identification']['format'] == 2
    assert header['settings']['signals']['cutoff'] == 12.5
    assert header['recordings'] == [
        {'name': 'Läufe/run 0.mcap', 'start': 1.7e9, 'duration': 12.25}
    ]
    assert header['robot']['urdf'] == ROBOT['urdf']


def test_settings_come_back(stored):
    again = FactorSettings.from_mapping(json.loads(json.dumps(SETTINGS.to_mapping())))
    assert again == SETTINGS
    energy = replace(SETTINGS, equations='energy', drives=None)
    assert FactorSettings.from_mapping(energy.to_mapping()) == energy
    # the interval says nothing where there are no intervals
    assert 'energy' not in SETTINGS.to_mapping()['estimation']


def test_file_from_before_a_setting_was_there_merges(stored):
    def before(header):
        del header['settings']['signals']['dead_zone']

    old = unpack(changed(pack(stored), header=before))
    assert_equal(old, stored)
    assert old.merge(stored).factor.raw_rows == 2 * stored.factor.raw_rows


def test_highest_speeds_come_back_and_are_unknown_in_earlier_files(stored):
    speeds = np.array([0.5, 1.5, np.nan])[:N]
    known = replace(stored, factor=replace(stored.factor, highest_speed=speeds))
    assert np.array_equal(unpack(pack(known)).factor.highest_speed, speeds, equal_nan=True)
    old = unpack(changed(pack(known), 'highest_speed.npy', lambda _: None))
    assert np.isnan(old.factor.highest_speed).all()
    assert np.isnan(old.merge(known).factor.highest_speed).all()


def test_damaged_bytes_are_never_taken_for_numbers(stored):
    data = pack(stored)
    outcomes = {'refused': 0, 'harmless': 0}
    for place in range(0, len(data), 7):
        wrong = bytearray(data)
        wrong[place] ^= 1 << (place % 8)
        try:
            found = unpack(bytes(wrong), 'run.factor')
        except IdentificationError as error:
            assert "'run.factor'" in str(error) and error.file == 'run.factor'
            outcomes['refused'] += 1
        else:
            assert_equal(found, stored)
            outcomes['harmless'] += 1
    # stamps in the archive's own headers, of which a small file has many, mean nothing
    assert outcomes['refused'] > 5 * outcomes['harmless'] > 0


def test_cut_off_file_is_damaged(stored):
    data = pack(stored)
    for length in (2, 30, 500, len(data) // 2, len(data) - 1):
        with pytest.raises(IdentificationError, match="factor file 'run.factor' is damaged"):
            unpack(data[:length], 'run.factor')


@pytest.mark.parametrize(
    'content',
    [b'', b't,q1,q2\n0,1,2\n', npy(np.ones(3)), pickle.dumps({'triangles': 1})],
    ids=['empty', 'csv', 'npy', 'pickle'],
)
def test_other_file_is_named(content, tmp_path):
    path = tmp_path / 'run.factor'
    path.write_bytes(content)
    with pytest.raises(IdentificationError, match=r"run.factor' is not a factor file") as caught:
        read_factor(path)
    assert caught.value.file == str(path) and 'reduce' in caught.value.remedy


def test_archive_of_other_things_is_named(tmp_path):
    path = tmp_path / 'run.factor'
    with open(path, 'wb') as file:
        np.savez(file, time=np.arange(3.0))
    with pytest.raises(IdentificationError, match='is not a factor file'):
        read_factor(path)


def test_file_of_a_later_version_is_named(stored):
    def later(header):
        header['robot_identification'].update(format=9, version='9.1.0')

    with pytest.raises(
        IdentificationError, match='has format 9, this version reads up to 2'
    ) as caught:
        unpack(changed(pack(stored), header=later), 'run.factor')
    assert 'version 9.1.0' in caught.value.remedy


@pytest.mark.parametrize(
    ('part', 'edit', 'words'),
    [
        ('rows.npy', lambda _: None, "'rows' is missing"),
        ('rows.npy', lambda _: npy(np.ones(N)), 'rows holds something else'),
        ('rows.npy', lambda _: npy(np.ones(2, dtype=int)), r'rows has shape \(2,\)'),
        ('triangles.npy', lambda _: npy(np.ones(5)), 'triangles has shape'),
        ('raw_gram.npy', lambda c: c[:-8] + np.array(np.nan).tobytes(), 'raw_gram holds'),
        ('columns.npy', lambda _: npy(np.ones((N, B + 1))), 'columns holds something else'),
        ('highest_speed.npy', lambda _: npy(-np.ones(N)), 'highest_speed holds something'),
        ('highest_speed.npy', lambda _: npy(np.ones(N + 1)), 'highest_speed has shape'),
        ('effort_sums.npy', lambda _: npy(np.array([{}] * N), allow_pickle=True),
         'not an array of numbers'),
    ],
)  # fmt: skip
def test_array_that_does_not_fit_is_named(stored, part, edit, words):
    with pytest.raises(IdentificationError, match=f'damaged: .*{words}'):
        unpack(changed(pack(stored), part, edit))


@pytest.mark.parametrize(
    ('edit', 'words'),
    [
        (lambda h: h.pop('fingerprint'), "'fingerprint' is missing"),
        (lambda h: h['fingerprint'].update(rows=[[1.0]]), 'a number a parameter and joint'),
        (lambda h: h['settings']['signals'].update(cutoff='x'), "'signals.cutoff' is 'x'"),
        (lambda h: h['settings']['signals'].update(unknown=1), "unknown key 'signals.unknown'"),
        (lambda h: h['recordings'].append({'called': 1}), 'called'),
    ],
)
def test_header_that_does_not_fit_is_named(stored, edit, words):
    with pytest.raises(IdentificationError, match=words) as caught:
        unpack(changed(pack(stored), header=edit), 'run.factor')
    assert caught.value.file == 'run.factor'


def test_missing_file_and_folder_are_named(stored, tmp_path):
    with pytest.raises(IdentificationError, match="cannot read factor file '.*none.factor'"):
        read_factor(tmp_path / 'none.factor')
    with pytest.raises(IdentificationError, match="cannot write '.*run.factor': No such file"):
        write_factor(stored, tmp_path / 'none' / 'run.factor')


def test_failed_write_leaves_what_was_there(stored, tmp_path, monkeypatch):
    path = tmp_path / 'run.factor'
    write_factor(stored, path)

    def full(*_):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(os, 'replace', full)
    with pytest.raises(IdentificationError, match='No space left'):
        write_factor(make_stored(1), path)
    assert list(tmp_path.iterdir()) == [path]
    assert_equal(read_factor(path), stored)


def test_unlike_factors_are_told_by_their_recordings(stored):
    other = make_stored(1)
    settings = replace(SETTINGS, signals=replace(SETTINGS.signals, cutoff=13.0))
    fingerprint = replace(other.factor.fingerprint, settings=settings.to_mapping())
    other = replace(
        other, factor=replace(other.factor, fingerprint=fingerprint), settings=settings
    )
    for merge in (lambda: stored.merge(other), lambda: merge_stored([stored, other])):
        with pytest.raises(SettingsError, match="'signals.cutoff' is 12.5 here and 13.0 there"):
            merge()


def test_fingerprint_survives_the_file(stored):
    mine, other = stored.factor.fingerprint, unpack(pack(stored)).factor.fingerprint
    assert isinstance(other, ModelSignature)
    assert np.array_equal(mine.rows, other.rows)
    assert np.array_equal(mine.regrouping, other.regrouping)
    assert mine.settings == other.settings


def make_blocks(parts=5, seed=3):
    """Stretches in which joint j does not see the first j columns."""
    rng = np.random.default_rng(seed)

    def joint_rows(j, m):
        rows = rng.normal(size=(m, B - j + 1))
        return JointRows(np.arange(j, B), rows if m <= B - j + 1 else np.linalg.qr(rows, 'r'))

    return TimeBlocks(
        0.5,
        tuple(tuple(joint_rows(j, 4 + 9 * (part % 2)) for j in range(N)) for part in range(parts)),
    )


def assert_same_blocks(one, two):
    """Hold the products of the rows together, to single precision."""
    assert one.duration == two.duration and len(one) == len(two)
    for first, second in zip(one.parts, two.parts, strict=True):
        for a, b in zip(first, second, strict=True):
            assert np.array_equal(a.columns, b.columns)
            np.testing.assert_allclose(a.rows.T @ a.rows, b.rows.T @ b.rows, atol=1e-5)


def test_stretches_come_back_in_single_precision(stored):
    blocks = make_blocks()
    found = unpack(pack(replace(stored, blocks=blocks)))
    assert_same_blocks(found.blocks, blocks)
    assert pack(found) == pack(unpack(pack(found)))


def test_stretches_of_recordings_stay_apart(stored):
    blocks = make_blocks(3).followed_by(make_blocks(2, seed=4))
    data = pack(replace(stored, blocks=blocks))
    assert unpack(data).blocks.recordings == (3, 2)
    earlier = changed(data, 'part_recordings.npy', lambda _: None)
    assert unpack(earlier).blocks.recordings == (5,)


def test_files_of_format_1_have_no_stretches(stored):
    def older(header):
        header['robot_identification'].update(format=1)
        del header['part_duration']

    assert unpack(changed(pack(stored), header=older)).blocks is None


def test_stretches_are_bounded_in_files_and_merged_ones(stored):
    many = replace(stored, blocks=make_blocks(300))
    assert len(many.blocks) <= 128
    size = len(pack(many))
    merged = merge_stored([many] * 3)
    assert len(merged.blocks) <= 128 and len(pack(merged)) < 1.5 * size
    assert merged.blocks.duration > many.blocks.duration
    assert many.merge(replace(stored, blocks=None)).blocks is None
    whole = [sum(j.rows.T @ j.rows for part in b.parts for j in part[:1]) for b in
             (merged.blocks, make_blocks(300))]  # fmt: skip
    np.testing.assert_allclose(whole[0], 3.0 * whole[1])


@pytest.mark.parametrize(
    ('part', 'edit', 'words'),
    [
        ('part_columns.npy', lambda _: npy(np.ones((N, B + 1), dtype=bool)), 'part_columns has'),
        ('part_rows.npy', lambda _: npy(np.ones((129, N), dtype=int)), 'part_rows has'),
        ('part_rows.npy', lambda _: npy(np.full((5, N), 99)), 'part_rows holds'),
        ('part_rows.npy', lambda _: npy(np.ones((5, N))), 'part_rows holds'),
        ('parts.npy', lambda _: npy(np.ones(3, dtype=np.float32)), 'parts has shape'),
        ('parts.npy', lambda c: c[:-4] + np.float32(np.nan).tobytes(), 'parts holds'),
        ('part_rows.npy', lambda _: None, "'part_rows' is missing"),
        ('part_recordings.npy', lambda _: npy(np.array([4])), 'part_recordings holds'),
        ('part_recordings.npy', lambda _: npy(np.array([0, 5])), 'part_recordings holds'),
    ],
)
def test_damaged_stretches_are_told(stored, part, edit, words):
    data = pack(replace(stored, blocks=make_blocks()))
    with pytest.raises(IdentificationError, match=words):
        unpack(changed(data, part, edit), 'run.factor')
