# SPDX-License-Identifier: Apache-2.0
"""
The ROS nodes: each declares its parameters, makes one core object and translates messages.

Only this room imports rclpy.
"""
