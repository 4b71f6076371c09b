# SPDX-License-Identifier: Apache-2.0
"""
YAML of users, within limits on nesting, aliases, nodes and the length of numbers.

PyYAML's composers recurse once a level (in C, until the stack overflows), and aliases let a
kilobyte stand for gigabytes.  This composer counts the nodes before anything is constructed.
"""

from __future__ import annotations

from typing import Any

import yaml
from yaml.composer import Composer, ComposerError
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.cyaml import CParser
from yaml.events import AliasEvent, NodeEvent
from yaml.resolver import Resolver

MAX_DEPTH = 64
"""Levels of mappings and lists in each other."""

MAX_NODES = 5_000_000
"""Scalars, mappings and lists in a document."""

MAX_ALIASED_NODES = 100_000
"""Nodes that the aliases of a document stand for, all together."""

MAX_INTEGER_LENGTH = 40
"""Characters of an integer; one of 64 bits has 20 at most."""


class LimitedComposer(Composer):
    """Composer within the limits above, to be put in front of PyYAML's own parts."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0
        self._nodes = 0
        self._aliased = 0
        self._sizes: dict[str, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node:
        """Compose the node that begins with the next event."""
        event: NodeEvent = self.peek_event()
        if isinstance(event, AliasEvent):
            return self._compose_alias(event, parent, index)
        self._depth += 1
        self._nodes += 1
        if self._depth > MAX_DEPTH:
            raise ComposerError(None, None, f'nested deeper than {MAX_DEPTH}', event.start_mark)
        if self._nodes > MAX_NODES:
            raise ComposerError(None, None, f'more than {MAX_NODES} values', event.start_mark)
        before = self._nodes + self._aliased
        node = super().compose_node(parent, index)
        self._depth -= 1
        if event.anchor is not None:
            self._sizes[event.anchor] = self._nodes + self._aliased - before + 1
        return node

    def _compose_alias(self, event: AliasEvent, parent: yaml.Node | None, index: Any) -> yaml.Node:
        if event.anchor in self.anchors and event.anchor not in self._sizes:
            raise ComposerError(None, None, 'a value contains itself', event.start_mark)
        self._aliased += self._sizes.get(event.anchor, 0)
        if self._aliased > MAX_ALIASED_NODES:
            problem = f'aliases stand for more than {MAX_ALIASED_NODES} values'
            raise ComposerError(None, None, problem, event.start_mark)
        return super().compose_node(parent, index)


class LimitedConstructor(SafeConstructor):
    """Constructor of plain data; a value that does not fit its tag is an error of YAML."""

    def construct_yaml_int(self, node: yaml.Node) -> int:
        """Return an integer that is not longer than `MAX_INTEGER_LENGTH`."""
        if isinstance(node, yaml.ScalarNode) and len(node.value) > MAX_INTEGER_LENGTH:
            problem = f'an integer of {len(node.value)} characters'
            raise ConstructorError(None, None, problem, node.start_mark)
        return super().construct_yaml_int(node)

    def construct_document(self, node: yaml.Node) -> Any:
        """Return the data of a document."""
        try:
            return super().construct_document(node)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            # of int, float, datetime and binascii, for text that a tag does not fit
            problem = f'a value does not fit its tag ({error})'
            raise ConstructorError(None, None, problem, node.start_mark) from error


LimitedConstructor.add_constructor('tag:yaml.org,2002:int', LimitedConstructor.construct_yaml_int)


class LimitedLoader(LimitedComposer, CParser, LimitedConstructor, Resolver):
    """PyYAML's safe loader within limits, with the parser in C."""

    def __init__(self, stream: Any) -> None:
        CParser.__init__(self, stream)
        LimitedComposer.__init__(self)
        LimitedConstructor.__init__(self)
        Resolver.__init__(self)


def load_yaml(text: str) -> Any:
    """
    Return the data of YAML 1.1, as ``yaml.safe_load`` does.

    Raises
    ------
    yaml.YAMLError
        for what is no YAML, exceeds a limit, contains itself or does not fit its tag.

    """
    loader = LimitedLoader(text)
    try:
        node = loader.get_single_node()
        return None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()
