# SPDX-License-Identifier: Apache-2.0
"""
Raw messages of one topic of a rosbag2 recording, mcap or sqlite3.

Complete files that are made as usual are read after their index, other mcap files from their start
to their end.  One whose writer was killed has neither; it is read up to its last complete message.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
import re
import tempfile
import warnings

from ..errors import (
    IdentificationWarning,
    one_of,
    RecordingError,
)
from ..untrusted.decompression import decompress_file, decompress_message
from ..untrusted.files import open_regular, require_regular
from .bag_info import bag_info
from .bag_summary import compression_of, contents_of
from .mcap_reader import check_summary
from .mcap_records import MAGIC
from .mcap_recovery import (
    has_end,
    recovered_messages,
    remains_of,
)
from .messages import Messages
from .recording_config import unusable

JOINT_STATE = 'sensor_msgs/msg/JointState'


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
    if mark := bag_info(bag).mark:
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
        except Exception as error:  # of sqlite, zstd, lz4, struct and YAML, each its own
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
    Time from the first to the last message of any topic [s]; 0 where the bag is not whole or its
    index does not tell.

    """
    try:
        parts = _parts(bag)
        if len(parts) != 1 or not _is_whole(parts[0]):
            return 0.0
        contents = contents_of(parts[0])
        return 0.0 if contents is None else contents.duration
    except Exception:  # what is wrong with it is said when it is read
        return 0.0


def _parts(bag: Path) -> list[Path]:
    """
    Return what to read one after another.

    That is the bag itself where it is whole, or its storage files where ``metadata.yaml`` is
    missing or a file is unfinished.
    """
    if not bag.is_dir():
        require_regular(bag)
        return [bag]
    files = _files(bag)
    for file in (*files, bag / 'metadata.yaml'):
        why = unusable(file) if file.exists() else None
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
    return files


def _files(folder: Path) -> list[Path]:
    """Return the storage files in a folder in their order."""
    files = [file for file in folder.iterdir() if file.suffix in ('.mcap', '.db3')]
    return sorted(files, key=lambda file: [int(n[-18:]) for n in re.findall(r'\d+', file.stem)])


def _is_whole(part: Path) -> bool:
    """Tell whether an mcap file has its end; other files and folders are taken to be whole."""
    if part.suffix != '.mcap':
        return True
    with open_regular(part) as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            return True  # not an mcap file at all: the reader says so
    return has_end(part)


def _finished(part: Path, topic: str, found: dict[str, str]) -> Iterator[Messages]:
    contents = contents_of(part)
    if contents is None:
        yield from _unusual(part, topic, found)
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


def _unusual(part: Path, topic: str, found: dict[str, str]) -> Iterator[Messages]:
    """Read a whole recording whose index or ``metadata.yaml`` is missing or not as usual."""
    if part.is_dir():
        yield from _unusual_folder(part, topic, found)
        return
    if part.suffix != '.mcap':
        raise ValueError('it has no tables of topics and messages in CDR')
    with open_regular(part) as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            raise ValueError('it does not begin as an mcap file')
    check_summary(part)
    yield from recovered_messages(
        remains_of(part), lambda name, kind: _is_wanted(name, kind, topic), found
    )


def _unusual_folder(bag: Path, topic: str, found: dict[str, str]) -> Iterator[Messages]:
    """Read the storage files of a folder, decompressed where files or messages are compressed."""
    compression, paths = compression_of(bag)
    if compression == 'file':
        for path in paths:
            with tempfile.TemporaryDirectory(prefix='robot_identification_') as folder:
                # run.mcap.zstd becomes run.mcap
                file = Path(folder, path.stem)
                decompress_file(path, file)
                yield from _finished(file, topic, found)
        return
    for path in paths:
        for messages in _finished(path, topic, found):
            if compression == 'message':
                data = [decompress_message(messages[i]) for i in range(len(messages))]
                yield Messages.of(data, messages.times)
            else:
                yield messages


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
    text = getattr(error, 'strerror', None) or ' '.join(str(error).split())
    text = text or type(error).__name__
    return RecordingError(
        f'{part}: is damaged, not a rosbag2 recording or not readable ({text})',
        file=str(part),
        remedy='copy it again, or cut what can be read with `ros2 bag convert` or `mcap recover`',
    )
