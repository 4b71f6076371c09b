# SPDX-License-Identifier: Apache-2.0
"""Robot models: the URDF, parameters and their names, physical consistency, collision shapes."""
