# SPDX-License-Identifier: Apache-2.0
"""Node ``excitation``: plans exciting trajectories and has them executed."""
