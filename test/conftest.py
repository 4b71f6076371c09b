# SPDX-License-Identifier: Apache-2.0
"""What all tests share."""

from __future__ import annotations

import importlib.util
import os
import sys


def pytest_configure(config):
    """
    Restart pytest once with the library path that ROS from wheels needs.

    The wheels would do so themselves at the first import of rclpy, with pytest's output already
    redirected, and with xdist's workers already waiting for work.
    """
    restarted = os.environ.get('_ROS_WHEELS_BOOTSTRAP_COMPLETE')
    if restarted or importlib.util.find_spec('ros_wheels_bootstrapper') is None:
        return
    capture = config.pluginmanager.getplugin('capturemanager')
    if capture is not None:
        capture.stop_global_capturing()
    sys.stdout.flush()
    sys.stderr.flush()
    import ros_wheels_bootstrapper  # noqa: F401  (replaces this process)
