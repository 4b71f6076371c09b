# SPDX-License-Identifier: Apache-2.0
"""
Check of the first lines of docstrings: no definition by a question word.

A class or module is described by a noun phrase, a function by an imperative.  The order of words
in other first lines is ruff's to check (pydocstyle's rules).  Exits with 1 after naming each line.
"""

import ast
from pathlib import Path
import re
import sys

FOLDERS = ('benchmarks', 'examples', 'fuzz', 'launch', 'robot_identification', 'scripts', 'test')
QUESTION = re.compile(r'(What|How|Where|Whether|When|Who|Whom|Whose|Why|Which)\b')
DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def questions(source):
    """
    Return the docstrings that begin with a question word.

    Parameters
    ----------
    source : str
        A module's text.

    Returns
    -------
    list of (int, str)
        Number of the line and first line of each.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DEFINITIONS):
            text = ast.get_docstring(node) or ''
            if QUESTION.match(text):
                found.append((node.body[0].lineno, text.splitlines()[0]))
    return found


def main():
    """Check all sources; return the exit code."""
    root = Path(__file__).resolve().parents[1]
    code = 0
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob('*.py')):
            for line, text in questions(path.read_text(encoding='utf-8')):
                name = path.relative_to(root)
                print(f'{name}:{line}: begin with a noun phrase or an imperative: {text}')
                code = 1
    return code


if __name__ == '__main__':
    sys.exit(main())
