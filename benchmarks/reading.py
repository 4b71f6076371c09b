# SPDX-License-Identifier: Apache-2.0
"""
Time how recordings get into arrays: ten minutes at 1 kHz, and what a short one costs by the way.

    .venv/bin/python -m benchmarks reading
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
import subprocess
import sys
import tempfile
import time

import numpy as np
from robot_identification.config.experiment_file import experiment_from
from robot_identification.config.problem import IdentificationProblem
from robot_identification.config.sources import FileSource, open_recording
from robot_identification.data.bag_writer import BagWriter, Topic
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.regressor.base_search import structure

from .harness import Figure, interleaved, Section, Table
from .recorded import (
    JOINTS,
    KIND,
    motion,
    PERIOD,
    serialised,
    SIGNALS,
    START,
    TOPIC,
    write_csv,
    write_mcap,
    write_sqlite,
)

ARM = Path(__file__).resolve().parents[1] / 'urdf' / 'demo_arm.urdf'
MESSAGES = 600_000

BY_LIBRARY = 10_000
"""Messages that are read one by one; their time is scaled to all."""

SHORT = 10
"""Messages of a recording that has nothing but overhead."""

TEN = 'all of ten seconds at 1 kHz, mcap'

BY_ROSBAGS = 5.0
"""How many times the time of a bag rosbags takes, message by message."""


def section() -> Section:
    """Measure everything."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        entries = written(folder)
        long, figures = long_recordings(entries)
        short, more = short_recordings(folder)
    return Section(
        'Reading recordings',
        f'Ten minutes of seven joints at 1 kHz ({MESSAGES:,} rows of 21 columns) into checked '
        'arrays, in blocks of 65,536 rows; and the overhead of each of many recordings. Files are '
        "in the operating system's cache.",
        [long, short],
        [*figures, *more],
    )


def written(folder: Path) -> dict[str, RecordingEntry]:
    """Write one recording in every format; return where they are."""
    signals = motion(MESSAGES)
    messages = serialised(signals)
    entries = {}
    for compression in ('none', 'lz4', 'zstd'):
        write_mcap(folder / f'{compression}.mcap', messages, compression)
        name = 'mcap' if compression == 'none' else f'mcap, {compression}'
        entries[name] = RecordingEntry(file=str(folder / f'{compression}.mcap'))
    write_sqlite(folder / 'run.db3', messages)
    entries['sqlite3'] = RecordingEntry(file=str(folder / 'run.db3'))
    write_csv(folder / 'run.csv', signals)
    names = {signal: tuple(f'{signal}{number}' for number in range(7)) for signal in SIGNALS}
    entries['csv'] = RecordingEntry(file=str(folder / 'run.csv'), rate=1000.0, **names)
    np.savez(folder / 'run.npz', **dict(zip(names, signals, strict=True)))
    arrays = {signal: signal for signal in names}
    entries['npz'] = RecordingEntry(file=str(folder / 'run.npz'), rate=1000.0, **arrays)
    return entries


def long_recordings(entries: dict[str, RecordingEntry]) -> tuple[Table, list[Figure]]:
    """Time all formats, and rosbags message by message."""
    works = {name: reading(entry) for name, entry in entries.items()}
    slow = {'csv': works.pop('csv')}
    own = {**interleaved(works, repeats=3, warm=0), **interleaved(slow, repeats=1, warm=0)}
    library = {name: by_library(Path(entries[name].file or '')) for name in own if is_bag(name)}
    rows, figures = [], []
    for name, timing in own.items():
        size = Path(entries[name].file or '').stat().st_size / 1e6
        cells = [name, f'{size:.0f}', f'{timing.median:.2f}', f'{size / timing.median:.0f}']
        other = library.get(name)
        cells += [f'{other:.1f}', f'{other / timing.median:.0f}'] if other else ['', '']
        idle, peak = memory(entries[name])
        rows.append([*cells, f'{peak:.0f}', f'{peak - idle:.0f}'])
        figures.append(Figure(f'{name}, ten minutes', timing.median, 's'))
        if other:
            times = other / timing.median
            figures.append(Figure(f'{name}, rosbags by ours', times, at_least=BY_ROSBAGS))
        figures.append(Figure(f'{name}, peak memory beyond imports', peak - idle, 'MB'))
    columns = ['format', 'MB', 's', 'MB/s', 'rosbags, s', 'ratio', 'peak MB', 'beyond imports']
    words = (
        'Beside it, `rosbags` message by message: `Reader.messages`, `deserialize_cdr`, and the '
        f'values into lists that become arrays; {BY_LIBRARY:,} messages are timed and scaled.'
    )
    return Table(columns, rows, 'Ten minutes at 1 kHz', words), figures


def is_bag(name: str) -> bool:
    """Return whether a format is one of rosbag2."""
    return name.startswith(('mcap', 'sqlite3'))


def source_of(entry: RecordingEntry) -> FileSource:
    """Open a recording of the seven joints."""
    source = open_recording(entry, JOINTS)
    assert isinstance(source, FileSource)
    return source


def reading(entry: RecordingEntry, expected: int = MESSAGES) -> Callable[[], None]:
    """Return the work to read a recording once."""

    def work() -> None:
        assert sum(map(len, source_of(entry).blocks())) == expected

    return work


def by_library(path: Path) -> float:
    """Read the first messages one by one; return the seconds that all would take."""
    from rosbags.rosbag2 import Reader
    from rosbags.typesys import get_typestore, Stores

    store = get_typestore(Stores.ROS2_JAZZY)
    with Reader(path) as reader:
        stamps, rows = [], []
        start = time.perf_counter()
        for connection, _, data in islice(reader.messages(), BY_LIBRARY):
            message = store.deserialize_cdr(data, connection.msgtype)
            stamp = message.header.stamp  # type: ignore[attr-defined]
            stamps.append(stamp.sec * 10**9 + stamp.nanosec)
            rows.append([message.position, message.velocity, message.effort])  # type: ignore[attr-defined]
        table = np.array(rows)
        assert table.shape == (BY_LIBRARY, 3, 7)
        return (time.perf_counter() - start) * MESSAGES / BY_LIBRARY


def memory(entry: RecordingEntry) -> tuple[float, float]:
    """Read a recording in a fresh process; return its peak memory before and after [MB]."""
    code = 'import sys, benchmarks.reading as reading\nprint(*reading.peaks(*eval(sys.argv[1])))'
    entry_text = repr((entry.file, entry.rate, *(getattr(entry, signal) for signal in SIGNALS)))
    command = [sys.executable, '-c', code, entry_text]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    idle, peak = map(float, output.split())
    return idle, peak


def peaks(file: str, rate: float | None, *signals: tuple[str, ...] | str | None) -> list[float]:
    """Read a recording in this process; return the peak of its memory before and after [MB]."""
    few = RecordingEntry(file, rate=rate, **dict(zip(SIGNALS, signals, strict=True)))
    idle = peak_memory()
    reading(few)()
    return [idle, peak_memory()]


def peak_memory() -> float:
    """Return the most memory that this process had so far [MB]."""
    # not getrusage, which counts what the parent had before it started this process
    lines = Path('/proc/self/status').read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith('VmHWM'))


def short_recordings(folder: Path) -> tuple[Table, list[Figure]]:
    """Time recordings of a few messages, in which everything is overhead."""
    messages = serialised(motion(SHORT))
    with BagWriter(folder / 'short', [Topic(TOPIC, KIND)]) as writer:
        for time_, message in zip(range(START, START + SHORT * PERIOD, PERIOD), messages):
            writer.write(0, time_, message.tobytes(), publish_time=time_)
    write_sqlite(folder / 'short.db3', messages)
    entries = {
        'mcap in its folder': RecordingEntry(file=str(folder / 'short')),
        'mcap alone': RecordingEntry(file=str(folder / 'short/short_0.mcap')),
        'sqlite3': RecordingEntry(file=str(folder / 'short.db3')),
    }
    works: dict[str, Callable[[], object]] = {}
    for name, entry in entries.items():
        works[f'{name}: reading it'] = reading(entry, SHORT)
        works[f'{name}: telling its length'] = length(entry)
    timings = interleaved(works, repeats=15)
    worst = max(timing.median for timing in timings.values())
    write_mcap(folder / 'ten_seconds.mcap', serialised(motion(10_000)), 'none')
    whole = reading(RecordingEntry(file=str(folder / 'ten_seconds.mcap')), 10_000)
    more = {TEN: whole, **shared(entries['mcap alone'])}
    timings |= interleaved(more, repeats=3)
    rows = [[name, f'{1e3 * timing.median:.2f}'] for name, timing in timings.items()]
    ten = timings[TEN].median
    figures = [
        Figure('overhead of a recording in reading it', worst, 's'),
        Figure('overhead of a recording by all of ten seconds', worst / ten, at_most=1.0),
    ]
    words = (
        f'Opening, checking and reading {SHORT} messages, beside all of a short recording and '
        'what any number of recordings share.'
    )
    return Table(['what', 'ms'], rows, 'Overhead of a recording', words), figures


def shared(entry: RecordingEntry) -> dict[str, Callable[[], object]]:
    """Return what is done once for all recordings of a fleet."""
    document = {
        'robot': {'urdf': str(ARM), 'effort_kind': 'joint_torque'},
        'data': {'identification': [{'file': entry.file}]},
    }
    experiment = experiment_from(document)
    problem = IdentificationProblem.from_experiment(experiment)
    return {
        'once for all: the experiment': lambda: experiment_from(document),
        'once for all: the robot': lambda: IdentificationProblem.from_experiment(experiment),
        'once for all: its base parameters': lambda: structure(
            problem.regressor(), problem.robot, grouping=problem.model.grouping
        ),
    }


def length(entry: RecordingEntry) -> Callable[[], float]:
    """Return the work to find out how long a recording is."""
    return lambda: source_of(entry).duration
