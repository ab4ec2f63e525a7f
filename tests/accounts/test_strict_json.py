"""One decoder for all external input: JSON that two parsers could read differently is refused,
with the reason.
"""

import pytest

from apps.accounts.strict_json import DEEPEST, NotStrictJson, decode_json, read_json_file

REFUSED = [
    (b"", "Expecting value"),
    (b"{", "Expecting property name"),
    (b"{} {}", "Extra data"),
    (b"{'a': 1}", "double quotes"),
    (b'{"a": 1,}', "property name"),
    (b'"a\nb"', "Invalid control character"),
    (b'{"a": 1, "a": 2}', "duplicate key 'a'"),
    (b'{"x": {"a": 1, "\\u0061": 2}}', "duplicate key 'a'"),
    (b"NaN", "NaN is not a number in JSON"),
    (b'{"a": Infinity}', "Infinity is not a number"),
    (b"-Infinity", "-Infinity is not a number"),
    (b"1e400", "1e400 is too large"),
    (b"-1e400", "too large"),
    (b"9" * 301, "301 digits"),
    (b"9" * 5000, "5000 digits"),
    (b'"a\\u0000b"', "NUL"),
    (b'{"a\\u0000": 1}', "NUL"),
    (b'"\\ud800"', "half of a surrogate pair"),
    (b'{"a": ["\\udfff"]}', "half of a surrogate pair"),
    (b'"\xff"', "not UTF-8"),
    ('"ä"'.encode("latin-1"), "not UTF-8"),
    ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
    (b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1), "nested deeper than 32"),
    (b'{"a":' * (DEEPEST + 1) + b"1" + b"}" * (DEEPEST + 1), "nested deeper than 32"),
    (b"[" * 2_000 + b"]" * 2_000, "nested"),
    (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
]
READ = [
    (b'{"a": [1, 2.5, true, null, "x"]}', {"a": [1, 2.5, True, None, "x"]}),
    (b"[" * DEEPEST + b"]" * DEEPEST, None),
    (b"9223372036854775808", 2**63),
    (b"1e-400", 0.0),
    (b'"\\ud83d\\ude00"', "\U0001f600"),
    (
        '"\u202e \u0301 \U0001f468\u200d\U0001f469"'.encode(),
        "\u202e \u0301 \U0001f468\u200d\U0001f469",
    ),
    ('"already text"', "already text"),
    (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),  # RFC 8259: readers may ignore a byte order mark
]


@pytest.mark.parametrize(("text", "reason"), REFUSED, ids=lambda value: repr(value)[:24])
def test_invalid_json_is_refused_with_the_reason(text, reason):
    with pytest.raises(NotStrictJson, match=reason):
        decode_json(text)


@pytest.mark.parametrize(("text", "document"), READ, ids=lambda value: repr(value)[:24])
def test_valid_json_is_decoded(text, document):
    found = decode_json(text)
    assert document is None or found == document


def test_lone_surrogate_in_a_python_string_is_refused():
    with pytest.raises(NotStrictJson, match="surrogate"):
        decode_json('"\ud800"')


def test_own_json_files_may_contain_any_text_up_to_a_size_limit(tmp_path):
    path = tmp_path / "vocabulary.json"
    path.write_bytes(b'{"\\u0000": 0}')
    assert read_json_file(path, 100) == {"\0": 0}
    with pytest.raises(NotStrictJson, match="13 bytes; the limit is 5"):
        read_json_file(path, 5)
