# SPDX-License-Identifier: Apache-2.0
"""Node ``simulation``: a robot in MuJoCo that is commanded and publishes what it measures."""
