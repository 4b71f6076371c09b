# SPDX-License-Identifier: Apache-2.0
"""What tests of faults share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope='module')
def cell(request, ros_domain):
    """Give a client (`Ros`) whose nodes run for all tests of a module."""
    pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')
    plugins = request.config.pluginmanager.get_plugins()
    ros = next(plugin.Ros for plugin in plugins if hasattr(plugin, 'Ros'))()
    try:
        yield ros
    finally:
        ros.close()
