# SPDX-License-Identifier: Apache-2.0
"""Exciting trajectories: planned to tell the parameters apart, checked before a robot moves."""
