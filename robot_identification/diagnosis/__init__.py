# SPDX-License-Identifier: Apache-2.0
"""Faults of recordings, and what mends them."""
