# SPDX-License-Identifier: Apache-2.0
"""What knows nothing of robots: processes, threads, compiled code, progress, lazy names."""
