# SPDX-License-Identifier: Apache-2.0
"""Files in and out: recordings, experiments, robot descriptions and results."""
