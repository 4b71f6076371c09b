# SPDX-License-Identifier: Apache-2.0
"""
Base parameters: the identifiable combinations of standard parameters.

The columns of the regressor W of a robot's standard parameters are linearly dependent whatever the
motion.  A set of independent columns W_b is chosen, the others are W_d = W_b B, and

    W p = W_b (p_b + B p_d)

makes ``p_b + B p_d`` the base parameters (Gautier and Khalil 1990; Gautier 1991).  The dependences
are found numerically from random states, not from data, so a poor recording cannot change the
model: W is analytic in the state, so its generic rank is the same on every open set of states.

Which columns are called independent is a matter of taste, and the numerical rank-revealing
factorisations decide it by rounding.  Here it is decided by a fixed order of preference: columns
are taken one after the other, and a column is independent if it does not lie in the span of those
taken before.  So neither the random states nor the order of the joints in the data change the
names.  The order follows Khalil's and Gautier's grouping, where a link's mass, the first moment
along its joint's axis and one principal moment go to the links before it:

1. inertias and first moments of each link but those below, from the base to the tips; friction;
2. of links on a turning joint: the second of the two moments of inertia across the axis (Iyy for
   an axis z) and the first moment along it (mz); of links on a sliding joint: all inertias, which
   only turning joints before it can see;
3. rotor inertias;
4. masses.

Beside this grouping, called ``preferred``, there is ``echelon``: columns are taken from left to
right, which gives the leading columns and the coefficients of the reduced row echelon form (Szabo
and Szadeczky-Kardoss, Acta IMEKO 10(3), 2021, equations (10) to (12)).  It groups other parameters
into equally many combinations of the same span.
"""

from .grouping import ECHELON_ORDER, structure
from .structure import BaseStructure, CATEGORIES, expression

__all__ = [
    'BaseStructure',
    'CATEGORIES',
    'ECHELON_ORDER',
    'expression',
    'structure',
]
