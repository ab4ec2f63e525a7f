"""Read lists and objects that a table holds as Python prints them: ['a', 'b'], {'role': 'user'}.

A column of lists that went through a CSV file is in this form. Nothing is run: only what
`ast.literal_eval` takes is read, and only where JSON has the same. Arrays of numpy, which pandas
makes of the lists of a Parquet file, are read where they hold objects: numpy prints these without
commas, and arrays within others as `array([…], dtype=object)`.
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
            tokens = _literal_tokens(text.strip())
            value = ast.literal_eval(_without_numpy(tokens))
        written = json.dumps(_with_lists(value), allow_nan=False)
        return strict_json.decode_json(written)
    except (SyntaxError, tokenize.TokenError):
        raise NotALiteral("not a Python literal") from None
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise NotALiteral("not a Python literal of JSON's values") from None


def _literal_tokens(text: str) -> list[tokenize.TokenInfo]:
    """Return the tokens; refuse deep nesting, and texts side by side, as numpy prints an array of
    them.

    Python would join these texts to one. Raises ValueError.
    """
    tokens: list[tokenize.TokenInfo] = []
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER):
            continue
        if tokens and token.type == tokens[-1].type == tokenize.STRING:
            raise ValueError("two texts without a comma")
        depth += (token.string in "([{") - (token.string in ")]}") if token.string else 0
        if depth > DEEPEST:
            raise ValueError("nested too deeply")
        tokens.append(token)
    return tokens


def _without_numpy(tokens: list[tokenize.TokenInfo]) -> str:
    """Return the text of the tokens, with commas between objects and without numpy's `array(…)`."""
    words = [token.string for token in tokens]
    kept: list[str] = []
    is_array: list[bool] = []  # of each open bracket
    at = 0
    while at < len(words):
        word = words[at]
        if words[at : at + 2] == ["array", "("]:
            is_array.append(True)
            at += 2
            continue
        if is_array and is_array[-1] and words[at : at + 3] == [",", "dtype", "="]:
            at += 4  # and the name of the type
            continue
        if word in ("(", "[", "{"):
            is_array.append(False)
        if word == "{" and kept and kept[-1] == "}":
            kept.append(",")
        if not (word in (")", "]", "}") and is_array and is_array.pop()):
            kept.append(word)
        at += 1
    return " ".join(kept)


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
