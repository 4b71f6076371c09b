# SPDX-License-Identifier: Apache-2.0
"""The verdict on a result: criteria, and what their reasons amount to."""
