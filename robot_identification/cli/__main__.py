# SPDX-License-Identifier: Apache-2.0
"""Start of ``python -m robot_identification.cli``."""

import sys

from .main import main

sys.exit(main())
