"""A person's own keys: only what differs is kept, clashes and reserved keys are refused in
words.
"""

import pytest

from apps.accounts.rating_keys import ACTIONS, BadKeys, by_form, keys_by_action, parse_rating_keys


def test_the_defaults_are_the_keys_that_were_promised():
    keys = keys_by_action({})
    assert [
        keys[name]
        for name in (
            "submit",
            "skip",
            "flag",
            "undo",
            "critique",
            "edit",
            "next",
            "previous",
            "guidelines",
        )
    ] == [
        "Enter",
        "s",
        "f",
        "z",
        "c",
        "e",
        "j",
        "k",
        "g",
    ]
    assert [keys[name] for name in ("first", "second", "tie")] == ["a", "b", "t"]


def test_the_defaults_clash_nowhere():
    assert parse_rating_keys({action.name: action.key for action in ACTIONS}) == {}


def test_only_what_differs_is_kept_and_letters_are_small():
    assert parse_rating_keys({"skip": "Q", "flag": "f", "grab": " "}) == {"skip": "q"}


def test_two_actions_may_exchange_their_keys():
    assert parse_rating_keys({"skip": "f", "flag": "s"}) == {"skip": "f", "flag": "s"}


def test_a_key_that_is_taken_is_refused_at_both_actions():
    with pytest.raises(BadKeys) as refused:
        parse_rating_keys({"skip": "f"})
    assert refused.value.problems == {
        "skip": "f is already used: flag as broken",
        "flag": "f is already used: skip the item",
    }


def test_forms_that_are_never_shown_together_may_share_a_key():
    assert parse_rating_keys({"best": "t"}) == {"best": "t"}


def test_a_key_of_all_forms_cannot_be_one_of_a_single_form():
    with pytest.raises(BadKeys, match="already used"):
        parse_rating_keys({"skip": "a"})


@pytest.mark.parametrize("key", ["1", "0", "?", "/", ".", "Escape", "tab"])
def test_keys_that_mean_something_everywhere_cannot_be_had(key):
    with pytest.raises(BadKeys, match="is reserved"):
        parse_rating_keys({"skip": key})


@pytest.mark.parametrize("key", ["", "ab", "Ctrl+s", 7, None, ["s"], "\x00", "F5", "\n"])
def test_what_is_no_key_is_refused(key):
    with pytest.raises(BadKeys, match="must be"):
        parse_rating_keys({"skip": key})


def test_an_unknown_action_is_refused():
    with pytest.raises(BadKeys, match="not an action"):
        parse_rating_keys({"dance": "d"})


def test_the_page_looks_actions_up_by_form():
    found = by_form({"first": "q"})
    assert found["pairwise"]["q"] == "first" and "a" not in found["pairwise"]
    assert found[""]["Enter"] == "submit" and "pairwise" in found and "stars" not in found
