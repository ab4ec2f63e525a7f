"""A user's own keys: only changed keys are stored; clashes and reserved keys are refused with a
message.
"""

import pytest

from apps.accounts.rating_keys import ACTIONS, BadKeys, by_form, keys_by_action, parse_rating_keys


def test_default_keys_have_the_expected_values():
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


def test_default_keys_do_not_clash():
    assert parse_rating_keys({action.name: action.key for action in ACTIONS}) == {}


def test_only_changed_keys_are_stored_in_lower_case():
    assert parse_rating_keys({"skip": "Q", "flag": "f", "grab": " "}) == {"skip": "q"}


def test_two_actions_can_swap_their_keys():
    assert parse_rating_keys({"skip": "f", "flag": "s"}) == {"skip": "f", "flag": "s"}


def test_key_in_use_is_refused_at_both_actions():
    with pytest.raises(BadKeys) as refused:
        parse_rating_keys({"skip": "f"})
    assert refused.value.problems == {
        "skip": "f is already used: flag as broken",
        "flag": "f is already used: skip the item",
    }


def test_forms_that_are_never_shown_together_may_share_a_key():
    assert parse_rating_keys({"best": "t"}) == {"best": "t"}


def test_action_of_all_forms_cannot_use_a_key_of_one_form():
    with pytest.raises(BadKeys, match="already used"):
        parse_rating_keys({"skip": "a"})


@pytest.mark.parametrize("key", ["1", "0", "?", "/", ".", "Escape", "tab"])
def test_reserved_keys_are_refused(key):
    with pytest.raises(BadKeys, match="is reserved"):
        parse_rating_keys({"skip": key})


@pytest.mark.parametrize("key", ["", "ab", "Ctrl+s", 7, None, ["s"], "\x00", "F5", "\n"])
def test_invalid_key_is_refused(key):
    with pytest.raises(BadKeys, match="must be"):
        parse_rating_keys({"skip": key})


def test_an_unknown_action_is_refused():
    with pytest.raises(BadKeys, match="not an action"):
        parse_rating_keys({"dance": "d"})


def test_keys_are_grouped_by_form_for_the_page():
    found = by_form({"first": "q"})
    assert found["pairwise"]["q"] == "first" and "a" not in found["pairwise"]
    assert found[""]["Enter"] == "submit" and "pairwise" in found and "stars" not in found
