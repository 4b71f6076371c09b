# SPDX-License-Identifier: Apache-2.0
"""
The command ``robot-identification``.

Exit codes: 0 done; 1 the output was lost, the system refused, or a fault of the program; 2 bad
input, reported in one line; 3 the parameters are not physically consistent or not plausible and
``--require`` was given; 4 recordings of a fleet were rejected; 5 a file of the results could not
be written; 130 interrupted by Ctrl-C.
"""

from .main import main

__all__ = ['main']
