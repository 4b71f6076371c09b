# SPDX-License-Identifier: Apache-2.0
"""Kinds of files that others write and that are not read, and the way from them to one that is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Foreign:
    """
    A kind of files that is not read.

    Attributes
    ----------
    title:
        What a file is, with an article.
    remedy:
        What to do; ``{file}`` and ``{stem}`` stand for the file's name, whole and without ending.
    suffixes, heads:
        Endings of names in lower case, and first bytes.

    """

    title: str
    remedy: str
    suffixes: tuple[str, ...] = ()
    heads: tuple[bytes, ...] = ()


FOREIGN = (
    Foreign(
        'a bag of ROS 1',
        "convert it: 'rosbags-convert --src {file} --dst {stem}' (of the package rosbags, which "
        'is installed), and give the folder {stem}',
        ('.bag',),
        (b'#ROSBAG V2',),
    ),
    Foreign('a spreadsheet', 'save its sheet as CSV (UTF-8)', ('.xlsx', '.xls', '.ods')),
    Foreign(
        'a data frame of pandas',
        'write its arrays with numpy.savez, or its table as CSV',
        ('.pkl', '.pickle', '.feather'),
    ),
    Foreign('a log of PX4', "convert it: 'ulog2csv {file}' (of the package pyulog)", ('.ulg',)),
    Foreign('text in UTF-16', 'save it as CSV in UTF-8', heads=(b'\xff\xfe', b'\xfe\xff')),
)
