# SPDX-License-Identifier: Apache-2.0
"""Node ``recorder``: joint states into rosbag2 (mcap) files."""
