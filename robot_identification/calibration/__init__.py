# SPDX-License-Identifier: Apache-2.0
"""Motions, one after the other, until the parameters are known well enough."""
