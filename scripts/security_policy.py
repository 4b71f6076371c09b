# SPDX-License-Identifier: Apache-2.0
"""
Access policy of the nodes for SROS 2, made from the table of their interfaces.

``python scripts/security_policy.py security/policy.xml`` brings the file up to date.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
import sys

from lxml import etree
from node_interfaces import INTERFACES, Role

ROOT = '/robot_identification'
"""Above the enclaves' names."""

OPERATOR = 'operator'
"""Node, and enclave, of who asks the nodes for something."""

_EVERYWHERE = ('/rosout', '/parameter_events', '/clock')

_PARAMETERS = (
    'describe_parameters',
    'get_parameter_types',
    'get_parameters',
    'list_parameters',
    'set_parameters',
    'set_parameters_atomically',
    'get_type_description',
)

_RULES = {
    Role.PUBLISHES: ('topics', 'publish'),
    Role.SUBSCRIBES: ('topics', 'subscribe'),
    Role.SERVICE: ('services', 'reply'),
    Role.ACTION: ('actions', 'execute'),
}
"""Element and attribute of the policy for each role but that of a client."""

_HEAD = """
  Enclaves of the nodes in the root namespace, with the topics of their default parameters: what is
  not here is denied. Give profiles your namespace (ns), and topics your names, for example of
  joint_states and of the controller. The operator is who calls services and sends goals.

  Made by python scripts/security_policy.py, see docs/how_to/security.md
"""


def policy() -> str:
    """Return the policy of all nodes and of an operator as XML."""
    document = etree.Element('policy', version='0.2.0')
    document.append(etree.Comment(_HEAD))
    enclaves = etree.SubElement(document, 'enclaves')
    for node in INTERFACES:
        # for the nodes in processes that it starts, too, which have no names of their own
        _add_profile(enclaves, node, _rules(node))
    _add_profile(enclaves, OPERATOR, _operator_rules())
    etree.indent(document)
    declaration = '<?xml version="1.0" encoding="UTF-8"?>'
    return f'{declaration}\n{etree.tostring(document, encoding="unicode")}\n'


def _add_profile(
    enclaves: etree._Element, node: str, rules: Mapping[tuple[str, str], Iterable[str]]
) -> None:
    """Add the enclave of a node, with what the rules allow."""
    enclave = etree.SubElement(enclaves, 'enclave', path=f'{ROOT}/{node}')
    profiles = etree.SubElement(enclave, 'profiles')
    profile = etree.SubElement(profiles, 'profile', ns='/', node=node)
    for (kind, rule), names in rules.items():
        element = etree.SubElement(profile, kind, {rule: 'ALLOW'})
        for name in sorted(set(names)):
            etree.SubElement(element, kind.removesuffix('s')).text = name


def _rules(node: str) -> dict[tuple[str, str], list[str]]:
    """Return names by element and attribute: those of every node, and its own."""
    rules = {
        ('topics', 'publish'): [*_EVERYWHERE[:2]],
        ('topics', 'subscribe'): [*_EVERYWHERE[1:]],
        ('services', 'reply'): [f'~/{name}' for name in _PARAMETERS],
    }
    for interface in INTERFACES[node]:
        if interface.role is Role.CALLS:
            is_action = '/action/' in interface.kind
            rule = ('actions', 'call') if is_action else ('services', 'request')
        else:
            rule = _RULES[interface.role]
        rules.setdefault(rule, []).append(interface.name)
    return rules


def _operator_rules() -> dict[tuple[str, str], list[str]]:
    """Return the rules of who asks for everything that the nodes offer, and listens to them."""
    rules = {
        ('topics', 'publish'): [*_EVERYWHERE[:2], 'excitation/alive'],
        ('topics', 'subscribe'): [*_EVERYWHERE],
        ('services', 'request'): [],
        ('services', 'reply'): [f'~/{name}' for name in _PARAMETERS],
        ('actions', 'call'): [],
    }
    asked = {
        Role.PUBLISHES: ('topics', 'subscribe'),
        Role.SERVICE: ('services', 'request'),
        Role.ACTION: ('actions', 'call'),
    }
    for node, interfaces in INTERFACES.items():
        rules['services', 'request'] += [f'{node}/{name}' for name in _PARAMETERS]
        for interface in interfaces:
            if interface.role in asked:
                rules[asked[interface.role]].append(interface.name.replace('~', node))
    return rules


def main(arguments: list[str]) -> int:
    """Write the policy into the file that ``arguments`` names; return the exit code."""
    (path,) = map(Path, arguments)
    path.write_text(policy(), encoding='utf-8')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
