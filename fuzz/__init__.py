# SPDX-License-Identifier: Apache-2.0
"""
Mutated inputs for every reader of untrusted data, each run in a worker process with limits.

    .venv/bin/python -m fuzz [--inputs 20000] [--targets csv mcap] [--reproduce csv:17]

An input is either used or refused with an error of the package.  Everything else is a finding: a
traceback of another kind, more than 10 s of computing, more than 2 GB of memory, or the death of
the process by a signal.  An input is made of its target's name and its number alone.
"""
