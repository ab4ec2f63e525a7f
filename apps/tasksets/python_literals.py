"""Read lists and objects that a table holds as Python prints them: ['a', 'b'], {'role': 'user'}.

A column of lists that went through a CSV file is in this form. Nothing is run: only what
`ast.literal_eval` takes is read, and only where JSON has the same.
"""

import ast
import io
import json
import tokenize
from typing import Any
from warnings import catch_warnings, simplefilter

from apps.accounts import strict_json

MAX_LITERAL_LENGTH = 200_000  # characters: a syntax tree takes much memory
DEEPEST = 2 * strict_json.DEEPEST  # brackets in brackets, before anything is parsed


class NotALiteral(ValueError):
    """Raised for a text that Python would not print for a value that JSON has, too."""


def read_literal(text: str) -> Any:
    """Return the value that the text shows. Raises NotALiteral."""
    if len(text) > MAX_LITERAL_LENGTH:
        raise NotALiteral(f"longer than {MAX_LITERAL_LENGTH:,} characters")
    try:
        with catch_warnings():
            simplefilter("ignore")
            _require_literal_tokens(text.strip())
            value = ast.literal_eval(text.strip())
        written = json.dumps(_with_lists(value), allow_nan=False)
        return strict_json.decode_json(written)
    except (SyntaxError, tokenize.TokenError):
        raise NotALiteral("not a Python literal") from None
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise NotALiteral("not a Python literal of JSON's values") from None


def _require_literal_tokens(text: str) -> None:
    """Refuse deep nesting, and texts side by side, as numpy prints an array of them.

    Python would join these texts to one. Raises ValueError.
    """
    depth = 0
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NL, tokenize.NEWLINE):
            continue
        if token.type == last == tokenize.STRING:
            raise ValueError("two texts without a comma")
        depth += (token.string in "([{") - (token.string in ")]}") if token.string else 0
        if depth > DEEPEST:
            raise ValueError("nested too deeply")
        last = token.type


def _with_lists(value: Any) -> Any:
    """Return the value with lists for tuples; a set, bytes or a complex number is left and
    refused later, and so is a key that is no text."""
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            raise ValueError("keys must be texts")
        return {name: _with_lists(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_lists(item) for item in value]
    return value
