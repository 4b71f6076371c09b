# SPDX-License-Identifier: Apache-2.0
"""The report of a result, and its headline."""
