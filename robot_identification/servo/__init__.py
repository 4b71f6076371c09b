# SPDX-License-Identifier: Apache-2.0
"""
Identification of position servos from commands and positions, without efforts.

`fit_servo` is the whole way: bounded Gauss-Newton (`fit`) on pseudo-efforts (`pseudo_effort`),
then on rollouts (`rollouts`) of a `ServoModel`.
"""
