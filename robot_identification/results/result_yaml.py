# SPDX-License-Identifier: Apache-2.0
"""Result files as YAML: full precision, one line an entry, whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ..errors import IdentificationError, reading_failure
from ..untrusted.files import load_yaml, read_text

_BREAKS = frozenset('\r\x85\u2028\u2029')
"""Line breaks in YAML 1.1 that a reader turns into others."""


def write_whole(path: Path, content: str | bytes) -> None:
    """
    Write a file that appears whole or not at all: it is written beside ``path`` and moved there.

    Text is written as UTF-8.  Raises OSError where the folder does not exist or is not writable.
    """
    write_together({path: content})


def write_together(files: Mapping[Path, str | bytes]) -> None:
    """
    Write contents by path, each as `write_whole`, and none where one cannot be written.

    Raises OSError as `write_whole`.
    """
    temporary = {path: path.with_name(f'.{path.name}.{os.getpid()}') for path in files}
    try:
        for path, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            temporary[path].write_bytes(data)
        for path in files:
            os.replace(temporary[path], path)
    except BaseException:
        for each in temporary.values():
            each.unlink(missing_ok=True)
        raise


def load(path: Path) -> Any:
    """Read YAML; raises IdentificationError naming the file where that is impossible."""
    try:
        return load_yaml(read_text(path))
    except OSError as error:
        raise IdentificationError(
            f"cannot read result file '{path}': {error.strerror or error}",
            file=str(path),
            remedy='give the result.yaml that an identification wrote',
        ) from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise damaged(path, reading_failure(error), None) from error


def damaged(path: Path, reason: str, key: str | None) -> IdentificationError:
    """Return the error for a file that is not as it was written."""
    return IdentificationError(
        f"result file '{path}' is damaged: {reason}",
        file=str(path),
        key=key,
        remedy='identify again, or restore the file',
    )


def plain(value: Any) -> Any:
    """Turn arrays, tuples, paths and NumPy numbers into what YAML has; NaN into None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (str, bool, int)) else str(value)


class _Dumper(getattr(yaml, 'CSafeDumper', yaml.SafeDumper)):  # type: ignore[misc]
    """Writes entries of lists on one line each, and long texts as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _Line(dict):
    """A mapping that is written on one line."""


class _Row(list):
    """A list that is written on one line."""


_Dumper.add_representer(
    _Line, lambda dumper, data: dumper.represent_mapping('tag:yaml.org,2002:map', data, True)
)
_Dumper.add_representer(
    _Row, lambda dumper, data: dumper.represent_sequence('tag:yaml.org,2002:seq', data, True)
)


def _represent_text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
    """Write long texts as blocks, and with escapes what other styles would break or fold."""
    style = '"' if _BREAKS.intersection(data) else '|' if '\n' in data else None
    return dumper.represent_scalar('tag:yaml.org,2002:str', data, style=style)


_Dumper.add_representer(str, _represent_text)


def dump(document: Mapping[str, Any]) -> str:
    """Return a document as YAML, an empty line between its top-level keys."""
    shaped = {key: _shaped(value) for key, value in document.items()}
    parts = [
        yaml.dump(
            {key: value}, Dumper=_Dumper, sort_keys=False, width=2**31 - 1, allow_unicode=True
        )
        for key, value in shaped.items()
    ]
    return '\n'.join(parts)


def _shaped(value: Any) -> Any:
    """Put mappings inside lists, and lists of numbers, on one line each."""
    if isinstance(value, dict):
        return {key: _shaped(item) for key, item in value.items()}
    if isinstance(value, list):
        if any(isinstance(item, (dict, list)) for item in value):
            return [
                _Line(item)
                if isinstance(item, dict) and 'joints' not in item
                else _Row(item)
                if isinstance(item, list)
                else _shaped(item)
                for item in value
            ]
        return _Row(value) if all(isinstance(i, (int, float)) for i in value) else value
    return value
