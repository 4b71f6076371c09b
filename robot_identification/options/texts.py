# SPDX-License-Identifier: Apache-2.0
"""Settings as they are typed: ``KEY=VALUE``, and arguments for xacro."""

from __future__ import annotations

from collections.abc import Iterable
import shlex

from ..errors import SettingsError


def settings_of(pairs: Iterable[str]) -> dict[str, str]:
    """Return settings by key of pairs ``KEY=VALUE``; raises SettingsError for another one."""
    found = {}
    for pair in filter(None, map(str.strip, pairs)):
        key, sign, value = pair.partition('=')
        if not sign or not key.strip():
            raise SettingsError(
                f"'--set {pair}' is not KEY=VALUE", key=key, remedy='for example signals.cutoff=20'
            )
        found[key.strip()] = value.strip()
    return found


def xacro_of(text: str) -> dict[str, str]:
    """Return arguments for xacro, ``name:=value`` apart by spaces; raises SettingsError."""
    found = {}
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise SettingsError(
            f"'--xacro {text}' has a quotation mark without another: name:=value", value=text
        ) from error
    for word in words:
        name, sign, value = word.partition(':=')
        if not sign or not name:
            raise SettingsError(f"'--xacro {word}' is not name:=value", value=word)
        found[name] = value
    return found
