# SPDX-License-Identifier: Apache-2.0
"""Criteria of tools behind a force-torque sensor, and of payloads."""

from __future__ import annotations

from collections.abc import Iterator

from ..loads.payload import FIT, Payload
from ..loads.tool import Tool
from ..version import page
from .fit_criteria import LARGE_ERROR, USELESS_ERROR
from .reason import ALL_OF_LOADS, DYNAMICS, Reason

FAIR_ERROR = 10.0
"""Error of a tool's fit [%] up to which nothing is said of it: that of noise."""
POOR_ERROR = 20.0
"""The same above which a tool is of no use."""
HOPELESS_ERROR = 80.0
"""The same above which the motion explains next to nothing of the wrench."""
MASS_STD = 5.0
"""Deviation of the mass [%] above which it is uncertain."""

_SUSPECTS = (
    'another frame (data.tool.frame), turned axes (data.tool.rotation), and units other than N '
    'and N m'
)


def load_of(result: Tool | Payload) -> Payload:
    """Return the load of a tool, or a payload itself."""
    return result.load if isinstance(result, Tool) else result


def tool_scope(result: Tool) -> str:
    """Return how much of the wrench the fit misses, in words."""
    return f'the fit misses {result.error:.3g} % of how the wrench changes'


def payload_scope(result: Payload) -> str:
    """Return how much of the effort the fit misses with the load and without one, in words."""
    with_it, without = result.fit.relative_error, result.fit_without.relative_error
    return (
        f'the fit misses {with_it:.3g} % of the effort, {without:.3g} % as if there were no load'
    )


def mass(result: Tool | Payload) -> Iterator[Reason]:
    """Iterate over mass and centre of mass that are not known, or not well."""
    load = load_of(result)
    if not load.determined[:4].all():
        remedy = (
            'turn the sensor about two axes'
            if isinstance(result, Tool)
            else 'move the joints before it, with and without the load'
        )
        yield Reason(
            text=f'mass and centre of mass were not determined: {remedy}',
            rules_out=ALL_OF_LOADS,
            next_step=remedy,
        )
        return
    if load.mass < 0.0:
        yield Reason(
            text=f'the load has {load.mass:.4g} kg: '
            + (
                'look for contact, and forces whose axes differ in sign'
                if isinstance(result, Tool)
                else 'the recordings with and without it are exchanged, or their efforts have '
                'another sign than gravity'
            ),
            rules_out=ALL_OF_LOADS,
            value=load.mass,
            threshold=0.0,
            unit='kg',
        )
        return
    uncertain = 100.0 * load.mass_std / load.mass
    if not 0.0 <= uncertain <= MASS_STD:
        yield Reason(
            text=f'the mass is uncertain by {uncertain:.3g} %',
            rules_out=(DYNAMICS,),
            value=uncertain,
            threshold=MASS_STD,
            unit='%',
        )


def load_size(result: Tool | Payload) -> Iterator[Reason]:
    """Iterate over masses and centres of mass beyond any load of a robot of this size."""
    load = load_of(result)
    found = load.body
    if load.robot_size is None or found is None or not load.determined[:4].all():
        return
    units = (
        "check that the sensor's wrenches are in N and N m, not in raw counts or mN"
        if isinstance(result, Tool)
        else 'check the unit of the efforts, and the gains of the drives'
    )
    for text in load.robot_size.faults_of_load(found.mass, found.center_of_mass):
        yield Reason(
            short=f'implausible, {text}',
            text=f'implausible: {text}: {units}',
            rules_out=ALL_OF_LOADS,
            next_step=units,
        )


def body(result: Tool | Payload) -> Iterator[Reason]:
    """Iterate over loads that are no physical body, or become one only by a change."""
    load = load_of(result)
    if not load.physical:
        yield Reason(
            short='no physical body explains it',
            next_step=f'look for contact, {_SUSPECTS}'
            if isinstance(result, Tool)
            else 'record longer or faster motions with and without it',
            text=f'no physical body explains the wrench: look for contact, {_SUSPECTS}'
            if isinstance(result, Tool)
            else 'no physical body explains the efforts: record longer or faster motions with and '
            'without it',
            rules_out=ALL_OF_LOADS,
        )
    if load.consistency is not None and not load.consistency.physical:
        yield Reason(
            short='the best fit is no physical body',
            text=f'the best fit of the load is physically inconsistent '
            f'({load.consistency.message}); the body is the nearest consistent one of the same '
            'mass',
            # a tool's inertia is left out where its body is far from what fits best
            rules_out=() if isinstance(result, Tool) else (DYNAMICS,),
            remark=isinstance(result, Tool),
        )


def wrench(result: Tool) -> Iterator[Reason]:
    """Iterate over what the error of a tool's fit rules out."""
    error = result.error
    if FAIR_ERROR < error <= POOR_ERROR:
        yield Reason(
            short=f'wrenches are missed by {error:.3g} %',
            next_step='look for contact, cables and another frame',
            text='the error is more than noise: look for contact, cables and another frame',
            rules_out=(DYNAMICS,),
            value=error,
            threshold=FAIR_ERROR,
            unit='%',
            key='data.tool.frame',
        )
    elif error > POOR_ERROR:
        look = 'look for contact, a delay,'
        if error > HOPELESS_ERROR:
            look = (
                'look whether its weight was taken off before, by the sensor or the controller, '
                'for'
            )
        yield Reason(
            short=f'wrenches are missed by {error:.3g} %',
            next_step=f'{look} {_SUSPECTS}',
            text=f'{tool_scope(result)}: {look} {_SUSPECTS}',
            rules_out=ALL_OF_LOADS,
            value=error,
            threshold=POOR_ERROR,
            unit='%',
            key='data.tool.frame',
        )


def payload_fit(result: Payload) -> Iterator[Reason]:
    """Iterate over what the error of the fit with a payload rules out, by the bounds of arms."""
    error = result.fit.relative_error
    if error > LARGE_ERROR:
        useless = error > USELESS_ERROR
        yield Reason(
            text=f'the fit misses {error:.3g} % of the effort',
            rules_out=ALL_OF_LOADS if useless else (DYNAMICS,),
            value=error,
            threshold=USELESS_ERROR if useless else LARGE_ERROR,
            unit='%',
            next_step='see the verdict on the arm without the payload',
        )


def payload_gains(result: Payload) -> Iterator[Reason]:
    """Iterate over the gains that a payload's mass depends on."""
    if result.by_gains:
        yield Reason(
            short='its mass is as uncertain as the gains',
            text='an error of the gains of the drives goes one to one into the mass of the load, '
            'and is not in its standard deviation: gains that are 10 % too large make it 10 % too '
            'heavy',
            next_step='record the same motion with a known load (data.known_load, '
            f'{page("how_to/currents")})',
            key='data.known_load',
        )


def inertia(result: Tool | Payload) -> Iterator[Reason]:
    """Iterate over moments of inertia that the recordings do not determine."""
    known = load_of(result).determined
    if known[:4].all() and not known.all():
        swing = ': swing the wrist fast for that' if isinstance(result, Tool) else ''
        yield Reason(
            text=f'inertia was not determined{swing}',
            rules_out=(DYNAMICS,),
            next_step='swing the wrist fast' if isinstance(result, Tool) else '',
        )


def assumed(result: Tool | Payload) -> Iterator[Reason]:
    """Iterate over parameters of the body that are made up."""
    load = load_of(result)
    names = [entry['name'] for entry in load.standard_rows() if not entry['determined']]
    if names:
        yield Reason(
            text='not determined by these recordings alone, and taken from a ball of '
            f'{FIT.radius:g} m: {", ".join(names)}',
            remark=True,
        )
