# SPDX-License-Identifier: Apache-2.0
"""Choices of `auto`: filters, delays, dead zones, terms of friction and drives, springs."""
