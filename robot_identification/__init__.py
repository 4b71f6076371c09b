# SPDX-License-Identifier: Apache-2.0
"""Identification of a robot's dynamic parameters, after its URDF and recordings of its motion."""

__version__ = '0.1.0'
