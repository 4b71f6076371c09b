# SPDX-License-Identifier: Apache-2.0
"""
Identification of position servos from commands and positions, without efforts.

`identify_servo` is the whole way: pseudo-efforts by least squares (`pseudo_effort`), then bounded
Gauss-Newton on rollouts (`rollout_fit`) of a `ServoModel`.
"""
