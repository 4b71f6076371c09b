# SPDX-License-Identifier: Apache-2.0
"""Results: files that programs, simulators and people read, and the report."""
