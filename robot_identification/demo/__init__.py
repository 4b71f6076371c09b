# SPDX-License-Identifier: Apache-2.0
"""The demonstration: a simulated arm, from its first motion to its identified parameters."""

from .story import run_demo

__all__ = ['run_demo']
