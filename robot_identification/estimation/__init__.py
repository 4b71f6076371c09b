# SPDX-License-Identifier: Apache-2.0
"""Estimation of base parameters from the rows of recordings, in memory that does not grow."""
