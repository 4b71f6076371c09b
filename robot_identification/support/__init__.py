# SPDX-License-Identifier: Apache-2.0
"""Tools that know nothing of robots: processes, threads, compiled code, progress, lazy names."""
