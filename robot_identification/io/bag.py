# SPDX-License-Identifier: Apache-2.0
"""
Raw messages of one topic of a rosbag2 recording, mcap or sqlite3.

Complete files that are made as usual are read in bulk, others by `rosbags`.  An mcap file whose
writer was killed has no index and no end; it is read up to its last complete message.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
import re
import warnings

from rosbags.rosbag2 import Reader

from ..errors import IdentificationWarning, one_of, RecordingError
from .bag_about import about_bag
from .bag_contents import contents_of
from .entry import unusable
from .mcap_records import MAGIC
from .mcap_recovery import has_end, recovered_messages, remains_of
from .messages import Messages

JOINT_STATE = 'sensor_msgs/msg/JointState'

_BATCH = 4096


def joint_state_messages(bag: Path, topic: str) -> Iterator[Messages]:
    """
    Iterate over the serialised joint states of a bag in the order of their reception.

    Parameters
    ----------
    bag:
        A bag's folder, with or without ``metadata.yaml``, or an ``.mcap`` or ``.db3`` file.
    topic:
        Name of the topic; whether it starts with a slash makes no difference.

    Yields
    ------
    Messages in CDR, some thousand at a time.

    Raises
    ------
    RecordingError
        where the bag is damaged, or has no such topic with joint states; names those that it has.

    """
    try:
        parts = _parts(bag)
    except OSError as error:
        raise _damaged(bag, error) from error
    if mark := about_bag(bag).mark:
        warnings.warn(
            IdentificationWarning(f'{bag}: was marked when it was recorded: {mark}'), stacklevel=2
        )
    found: dict[str, str] = {}
    for part in parts:
        try:
            yield from (
                _finished(part, topic, found)
                if _is_whole(part)
                else _unfinished(part, topic, found)
            )
        except RecordingError:
            raise
        except Exception as error:  # rosbags lets errors of sqlite, zstd, lz4 and struct through
            raise _damaged(part, error) from error
    _require_topic(bag, topic, found)


def bag_duration(bag: Path) -> float:
    """
    Tell how long a bag is without reading its messages.

    Parameters
    ----------
    bag:
        As for `joint_state_messages`.

    Returns
    -------
    Time from the first to the last message of any topic [s]; 0 where the bag is not whole.

    """
    try:
        parts = _parts(bag)
        if len(parts) != 1 or not _is_whole(parts[0]):
            return 0.0
        contents = contents_of(parts[0])
        if contents is not None:
            return contents.duration
        with Reader(parts[0]) as reader:
            return reader.duration * 1e-9
    except Exception:  # what is wrong with it is said when it is read
        return 0.0


def _parts(bag: Path) -> list[Path]:
    """
    Return what to read one after another.

    That is the bag itself where it is whole, or its storage files where ``metadata.yaml`` is
    missing or a file is unfinished.
    """
    if not bag.is_dir():
        return [bag]
    files = [file for file in bag.iterdir() if file.suffix in ('.mcap', '.db3')]
    for file in files:
        why = unusable(file)
        if why is not None:
            raise RecordingError(
                f'{file}: {why}', file=str(file), remedy='copy the recording again'
            )
    if (bag / 'metadata.yaml').exists() and all(_is_whole(file) for file in files):
        return [bag]
    if not files:
        raise RecordingError(
            f'{bag}: is not a bag, it has neither metadata.yaml nor an mcap or db3 file',
            file=str(bag),
            remedy='name the folder that the recorder wrote',
        )
    return sorted(files, key=lambda file: [int(n) for n in re.findall(r'\d+', file.stem)])


def _is_whole(part: Path) -> bool:
    """Tell whether an mcap file has its end; other files and folders are taken to be whole."""
    if part.suffix != '.mcap':
        return True
    with part.open('rb') as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            return True  # not an mcap file at all: the reader says so
    return has_end(part)


def _finished(part: Path, topic: str, found: dict[str, str]) -> Iterator[Messages]:
    contents = contents_of(part)
    if contents is None:
        yield from _by_library(part, topic, found)
        return
    found.update({each.name: each.type for each in contents.topics})
    wanted = [each for each in contents.topics if _is_wanted(each.name, each.type, topic)]
    if not wanted:
        return
    count = 0
    for messages in contents.messages(wanted):
        count += len(messages)
        yield messages
    _require_all(count, sum(each.count or 0 for each in wanted))


def _by_library(part: Path, topic: str, found: dict[str, str]) -> Iterator[Messages]:
    """Read what is not made as usual, message by message."""
    with Reader(part) as reader:
        found.update({c.topic: c.msgtype for c in reader.connections})
        wanted = [c for c in reader.connections if _is_wanted(c.topic, c.msgtype, topic)]
        if not wanted:
            return
        count = 0
        messages = reader.messages(connections=wanted)
        while batch := list(islice(messages, _BATCH)):
            count += len(batch)
            yield Messages.of([data for *_, data in batch], [time for _, time, _ in batch])
        _require_all(count, sum(c.msgcount for c in wanted))


def _require_all(count: int, promised: int) -> None:
    # a damaged chunk without a checksum shows only here
    if count < promised:
        raise ValueError(f'it holds {count} of {promised} messages on this topic')


def _unfinished(part: Path, topic: str, found: dict[str, str]) -> Iterator[Messages]:
    remains = remains_of(part)
    warnings.warn(
        IdentificationWarning(
            f'{part}: has no end, because its recorder was killed or the file was cut, or because '
            f'it is still being recorded; {remains.told}; `robot-identification repair` completes '
            'it for other readers'
        ),
        stacklevel=2,
    )
    yield from recovered_messages(remains, lambda name, kind: _is_wanted(name, kind, topic), found)


def _is_wanted(name: str, kind: str, topic: str) -> bool:
    return kind == JOINT_STATE and name.lstrip('/') == topic.lstrip('/')


def _require_topic(bag: Path, topic: str, found: dict[str, str]) -> None:
    if any(_is_wanted(name, kind, topic) for name, kind in found.items()):
        return
    others = [name for name, kind in found.items() if kind == JOINT_STATE]
    same = [kind for name, kind in found.items() if name.lstrip('/') == topic.lstrip('/')]
    what = f'is of type {same[0]}' if same else 'is not in it'
    remedy = (
        f'topics with joint states are {one_of(others)}'
        if others
        else f'it has no topic of type {JOINT_STATE}; its topics are {one_of(found) or "none"}'
    )
    raise RecordingError(
        f"{bag}: topic '{topic}' {what}", file=str(bag), value=topic, remedy=remedy
    )


def _damaged(part: Path, error: Exception) -> RecordingError:
    text = ' '.join(str(error).split()) or type(error).__name__
    return RecordingError(
        f'{part}: is damaged, not a rosbag2 recording or not readable ({text})',
        file=str(part),
        remedy='copy it again, or cut what can be read with `ros2 bag convert` or `mcap recover`',
    )
