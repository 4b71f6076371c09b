# SPDX-License-Identifier: Apache-2.0
"""Identification beside a running robot: one sample in, one estimate out, in constant time."""

from .identifier import OnlineIdentifier, StreamCounts, Update

__all__ = ['OnlineIdentifier', 'StreamCounts', 'Update']
