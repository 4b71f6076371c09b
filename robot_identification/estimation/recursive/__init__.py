# SPDX-License-Identifier: Apache-2.0
"""Recursive estimators: one row or one block of rows at a time, in constant memory."""
