# SPDX-License-Identifier: Apache-2.0
"""Let the tests import the scripts, which are no package."""

from pathlib import Path
import sys

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / 'scripts'))
