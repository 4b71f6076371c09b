# SPDX-License-Identifier: Apache-2.0
"""Files of ROS packages: where packages are, ``package://`` paths, and URDFs after xacro."""

from __future__ import annotations

from collections.abc import Mapping
import os
from pathlib import Path

from .errors import ModelError


def read_urdf(
    source: str | os.PathLike, xacro_arguments: Mapping[str, str] | None = None
) -> tuple[str, Path | None]:
    """
    Return the URDF text and its path (None where ``source`` is the text itself).

    Raises
    ------
    ModelError
        where the file or package does not exist, or xacro is needed and missing or fails.

    """
    text = os.fspath(source)
    if text.lstrip().startswith('<'):
        return text, None
    path = resolve_package_path(text)
    if not path.is_file():
        raise ModelError(
            f"URDF file '{path}' does not exist", file=str(path), remedy='correct the path'
        )
    if path.suffix == '.xacro':
        return _expand_xacro(path, dict(xacro_arguments or {})), path
    try:
        return path.read_text(encoding='utf-8'), path
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(
            f"cannot read URDF file '{path}': {error}",
            file=str(path),
            remedy='give a file in UTF-8 that may be read',
        ) from error


def resolve_package_path(path: str | os.PathLike) -> Path:
    """
    Turn ``package://<package>/<path>`` into a path; return any other path as it is.

    The package is looked for in AMENT_PREFIX_PATH (``share/<package>``), in ROS_PACKAGE_PATH, and,
    for this package itself, beside its sources.
    """
    text = os.fspath(path)
    prefix = 'package://'
    if not text.startswith(prefix):
        return Path(text).expanduser()
    package, _, rest = text[len(prefix) :].partition('/')
    for folder in package_folders():
        if (folder / package / 'package.xml').is_file() or (folder / package / rest).exists():
            return folder / package / rest
    own = Path(__file__).resolve().parent.parent
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


def _expand_xacro(path: Path, arguments: dict[str, str]) -> str:
    try:
        import xacro
    except ImportError:
        raise ModelError(
            f"'{path}' is a xacro file, and xacro is not installed",
            file=str(path),
            remedy='install xacro (pip install xacro, or the ROS package), or give the URDF',
        ) from None
    try:
        return xacro.process_file(str(path), mappings=arguments).toprettyxml(indent='  ')
    except Exception as error:
        raise ModelError(
            f"xacro cannot expand '{path}': {error}",
            file=str(path),
            remedy='correct the file, or give the arguments that it needs',
        ) from error
