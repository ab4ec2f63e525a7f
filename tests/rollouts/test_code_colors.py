"""Colors of code blocks: text is kept, and hostile text takes linear time."""

import re
import time
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.rollouts.code_colors import LEXERS, MAX_BLOCK_LENGTH, NotColored, colored

UNITS = [*"'\"`\\/*#$%&<>()[]{}=+-!|~^,.:;@?a1_ \n\t", "/*", "*/", "//", "\\\n", "${", "'''", '"""']
UNITS += [
    "f'{",
    "r#",
    "0x",
    "1e",
    "a'",
    "<<",
    "<<A\n",
    "$(",
    "((",
    "\\u",
    "::",
    "a(",
    "a<",
    "#if\n",
]
SPAN = re.compile(r'<span class="code-[a-z]+">|</span>')
RUN = 2_500  # characters: a quarter of the limit, as the test tries 200 runs
SLOWEST_S = 0.4  # processor time; quadratic lexers take 0.5 s or more on a fast machine


@given(st.sampled_from(sorted(LEXERS)), st.text(max_size=300))
def test_coloring_neither_loses_nor_adds_characters(language, code):
    html = colored(code, language)
    # Pygments normalizes every line ending to one character.
    expected = code.replace("\r\n", "\n").replace("\r", "\n")
    assert unescape(SPAN.sub("", html)) == expected


def seconds_of(unit: str, length: int, language: str) -> float:
    """Return the processor time for `length` characters of a repeated unit."""
    code = (unit * length)[:length]
    begun = time.process_time()
    colored(code, language)
    return time.process_time() - begun


@pytest.mark.parametrize("language", sorted(set(LEXERS) - {"py", "python3", "js", "sh"}))
def test_repeated_characters_are_lexed_in_linear_time(language):
    slow = {}
    for unit in UNITS:
        taken = seconds_of(unit, RUN, language)
        if taken > SLOWEST_S:  # a slow machine, or a lexer that is not linear
            quarter = min(seconds_of(unit, RUN // 4, language) for _ in range(3))
            if min(seconds_of(unit, RUN, language) for _ in range(3)) > 8 * quarter:
                slow[unit] = taken
    assert slow == {}


@pytest.mark.parametrize("info", ["", "cobol", "../python", "sml"])
def test_other_languages_are_not_colored(info):
    with pytest.raises(NotColored):
        colored("x", info)


def test_long_code_is_not_colored():
    with pytest.raises(NotColored):
        colored("x" * (MAX_BLOCK_LENGTH + 1), "python")
