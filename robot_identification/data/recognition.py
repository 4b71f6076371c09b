# SPDX-License-Identifier: Apache-2.0
"""
Kind of a file by its content.

Readers quote names and cells of a file in their messages.  A file that is named in a request is
checked to be of the right kind before, so that no content of any other file is published.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
import re
import stat

from ..errors import SettingsError
from ..model.friction import FRICTION_SYMBOLS
from ..model.urdf import is_urdf_file
from ..untrusted.compressed import COMPRESSED_TEXT
from .formats import FORMATS, KNOWN
from .formats.format import first_bytes

ROBOT, EXPERIMENT = 'a URDF or xacro file', 'an experiment file'

_LARGEST_YAML = 1 << 26  # bytes of a text that are searched

_SYMBOLS = '|'.join(('m|m[xyz]|I[xyz]{2}|Iam?|fvm|fcm|k[cs]?|d', *FRICTION_SYMBOLS))
_NUMBER = r'[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?'
_END = rf'(?:null|~|{_NUMBER})'
_PARAMETERS = re.compile(
    rf'^standard_parameters:|\S\.(?:{_SYMBOLS})["\']?\s*:\s*{_NUMBER}\s*(?:[,}}#]|$)', re.MULTILINE
)
_SECTIONS = re.compile(r'^(?:robot|data):\s*$', re.MULTILINE)
_BOUNDS = re.compile(rf'\S:\s+\[\s*{_END}\s*,\s*{_END}\s*\]')


def require_kind(path: Path, kind: str, key: str) -> None:
    """
    Require that a file or a bag's folder is of a kind.

    Parameters
    ----------
    kind:
        ``urdf`` (xacro included), ``parameters`` (a prior), ``bounds``, or the name of a format of
        recordings or factors.
    key:
        Name of the request's field or setting, for the message.

    Raises
    ------
    SettingsError
        naming the path, and no content of the file.

    """
    known = KNOWN.get(kind)
    title, is_one = _KINDS[kind] if known is None else (known.title, known.recognise)
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode) and not (known and known.topics):
            why = 'is a folder'
        elif not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            why = 'is neither a file nor a folder'
        else:
            why = '' if is_one(path) else f'is not {title}'
    except FileNotFoundError:
        why = 'does not exist'
    except (OSError, ValueError) as error:
        why = f'cannot be read ({getattr(error, "strerror", None) or "its name is no path"})'
    if why:
        raise SettingsError(
            f"'{key}': '{path}' {why}", key=key, file=str(path), remedy=f'give the path of {title}'
        )


def file_title(path: Path) -> str | None:
    """Return what a file or a bag's folder is by its content, in words, or None."""
    if path.suffix in COMPRESSED_TEXT and path.is_file():
        return 'a compressed table'
    folder = path.is_dir()
    # the last ones first: any text may be a table
    known = [each for each in reversed(FORMATS.values()) if each.topics or not folder]
    kinds = [] if folder else [_KINDS['urdf']]
    kinds += [(each.title, each.recognise) for each in known]
    try:
        found = (title for title, is_one in kinds if is_one(path))
        return next(found, None) or (EXPERIMENT if _has(_SECTIONS, path) else None)
    except (OSError, ValueError):  # another folder; a name that is no path
        return None


def _has(pattern: re.Pattern[str], path: Path) -> bool:
    """Return true for a text in which a pattern occurs."""
    text = first_bytes(path, _LARGEST_YAML).decode('utf-8', errors='replace')
    return pattern.search(text) is not None


_KINDS: dict[str, tuple[str, Callable[[Path], bool]]] = {
    'urdf': (ROBOT, is_urdf_file),
    'parameters': ('a YAML file of parameters', partial(_has, _PARAMETERS)),
    'bounds': ('a YAML file of names and [lowest, highest]', partial(_has, _BOUNDS)),
}
