"""Token ids become their text, in the three usual kinds of vocabulary."""

import json

import pytest

from apps.rollouts.token_text import load_vocabulary, texts


@pytest.fixture
def spelled(tmp_path):
    """Write a tokenizer.json and read its vocabulary."""

    def write(vocab: dict, decoder: dict | None, added: tuple = ()):
        document = {
            "model": {"vocab": vocab},
            "decoder": decoder,
            "added_tokens": [{"id": n, "content": words} for words, n in added],
        }
        (tmp_path / "tokenizer.json").write_text(json.dumps(document))
        return load_vocabulary(str(tmp_path))

    return write


def test_multibyte_character_is_shown_with_its_last_token(spelled):
    vocabulary = spelled({"Ã": 0, "¼": 1, "Ġber": 2}, {"type": "ByteLevel"})
    assert texts(vocabulary, [0, 1, 2]) == ["", "ü", " ber"]


def test_underlines_of_sentencepiece_become_spaces(spelled):
    vocabulary = spelled({"▁so": 0, "rry": 1}, {"type": "Metaspace"})
    assert texts(vocabulary, [0, 1]) == [" so", "rry"]


def test_words_are_separated_by_spaces_but_punctuation_is_not(spelled):
    vocabulary = spelled({"Thank": 0, "you": 1, "!": 2, "##r": 3}, {"type": "WordPiece"})
    assert "".join(texts(vocabulary, [0, 1, 3, 2])) == "Thank your!"


def test_special_tokens_are_shown_literally(spelled):
    vocabulary = spelled({"a": 0}, {"type": "Fuse"}, added=(("<|end|>", 1),))
    assert texts(vocabulary, [0, 1]) == ["a", "<|end|>"]


def test_unknown_id_is_shown_as_a_number(spelled):
    assert texts(spelled({"a": 0}, None), [7]) == ["<7>"]


def test_policy_that_is_not_on_this_machine_has_no_vocabulary(tmp_path):
    assert load_vocabulary(str(tmp_path / "gone")) is None
