# SPDX-License-Identifier: Apache-2.0
"""
Live identification of one robot from its serialised joint states, without ROS.

What the process of the identification node does with the messages that it takes, and the files of
an estimate; the filters and the recursion sample by sample are in `online`.
"""
