# SPDX-License-Identifier: Apache-2.0
"""Files of ROS packages: where packages are, ``package://`` paths, and URDFs after xacro."""

from __future__ import annotations

from collections.abc import Mapping
import os
from pathlib import Path

from ..errors import ModelError
from ..untrusted.files import read_text, require_regular, user_path
from ..untrusted.xacro_process import expand_xacro
from .mjcf import is_mjcf, urdf_of_mjcf

URDF_SIZE = 16 << 20
"""Largest size of a URDF or xacro file [bytes]."""


def read_urdf(
    source: str | os.PathLike, xacro_arguments: Mapping[str, str] | None = None
) -> tuple[str, Path | None]:
    """
    Return the URDF text and its path (None if ``source`` is the text itself).

    A file in MJCF is converted (`model.mjcf`).

    Raises ModelError if the file or package does not exist, or xacro is needed and missing or
    fails.
    """
    text = os.fspath(source)
    if text.lstrip().startswith('<'):
        return text, None
    path = resolve_package_path(text)
    if not os.path.exists(path):
        raise ModelError(
            f"URDF file '{path}' does not exist", file=str(path), remedy='correct the path'
        )
    try:
        if path.suffix != '.xacro':
            text = read_text(path, URDF_SIZE)
            return (urdf_of_mjcf(path) if is_mjcf(text, path) else text), path
        require_regular(path, URDF_SIZE)
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(
            f"cannot read URDF file '{path}': {getattr(error, 'strerror', None) or error}",
            file=str(path),
            remedy='give a file in UTF-8 that may be read',
        ) from error
    return expand_xacro(path, xacro_arguments or {}), path


def resolve_package_path(path: str | os.PathLike) -> Path:
    """
    Turn ``package://<package>/<path>`` into a path; return any other path as it is.

    The package is looked for in AMENT_PREFIX_PATH (``share/<package>``), in ROS_PACKAGE_PATH, and,
    for this package itself, beside its sources.
    """
    text = os.fspath(path)
    prefix = 'package://'
    if not text.startswith(prefix):
        return user_path(text)
    package, _, rest = text[len(prefix) :].partition('/')
    for folder in package_folders():
        if (folder / package / 'package.xml').is_file() or (folder / package / rest).exists():
            return folder / package / rest
    own = Path(__file__).resolve().parents[2]
    if package == 'robot_identification' and (own / rest).exists():
        return own / rest
    raise ModelError(
        f"package '{package}' of '{text}' is not found",
        file=text,
        remedy="source the workspace that has it, or give the file's own path",
    )


def package_folders() -> list[Path]:
    """Folders in which ROS packages' shared files are looked for."""
    folders = [
        Path(p, 'share') for p in os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep) if p
    ]
    folders += [Path(p) for p in os.environ.get('ROS_PACKAGE_PATH', '').split(os.pathsep) if p]
    return folders
