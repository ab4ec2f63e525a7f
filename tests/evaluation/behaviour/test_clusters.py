"""Pairs of replies are clustered by the change from one version to the other."""

import pytest

from apps.evaluation.behaviour.clusters import Pair, Reply, behaviour_of
from apps.evaluation.behaviour.features import read
from apps.evaluation.behaviour.phrases import changed_phrases

LONG = "Your parcel left our house on Monday and the carrier will bring it to you on Friday."


def pair(one: str, other: str, number: int = 0, **values: tuple[float, float]) -> Pair:
    sides = [{name: both[side] for name, both in values.items()} for side in (0, 1)]
    prompt = [{"role": "user", "content": "Where is it?"}]
    return Pair(
        prompt,
        Reply(2 * number, one, "stop", sides[0]),
        Reply(2 * number + 1, other, "stop", sides[1]),
    )


def changes(*pairs: Pair) -> dict[str, int]:
    found = behaviour_of(pairs).clusters
    return {f"{one.change.kind}: {one.change.words}": one.count for one in found}


@pytest.mark.parametrize(
    ("one", "other", "change"),
    [
        ("It left.", LONG, "length: longer"),
        (LONG, "It left.", "length: shorter"),
        ("It left on Monday.", "I’m sorry, but I can’t help with that.", "refusal: refuses"),
        ("I cannot say that.", "It left on Monday.", "refusal: no longer refuses"),
        ("It left.", "- It left", "format: has a list"),
        ("```\nx = 1\n```", "x = 1", "format: no longer has a code block"),
        ("It left.", '{"left": true}', "format: has JSON"),
        (
            "The parcel is on the way and it is late.",
            "Das Paket ist auf dem Weg und es ist die Schuld der Post.",
            "language: English → German",
        ),
        ("It left on Monday.", "Она ушла в понедельник.", "language: English → Cyrillic"),
    ],
)
def test_change_gets_the_right_cluster_name(one, other, change):
    if "Cyrillic" in change:
        one = "The parcel is on the way and it is late."
    assert change in changes(pair(one, other))


def test_moved_scorer_value_forms_a_cluster():
    assert changes(pair("a", "b", tone=(0.2, 0.8), right=(1.0, 0.9))) == {"reward: tone higher": 1}


def test_equal_replies_form_no_cluster_and_other_changes_are_counted():
    found = behaviour_of([pair("It left.", "It left."), pair("It left.", "It went.")])
    assert (found.pairs, found.same, found.other, list(found.clusters)) == (2, 1, 1, [])


def test_phrase_gained_by_many_replies_is_reported_once_and_in_full():
    pairs = [pair(f"word{n}", f"word{n} happy to help", n) for n in range(12)]
    found = changes(*pairs)
    assert found["wording: says “happy to help”"] == 12
    assert [one for one in found if one.startswith("wording")] == ["wording: says “happy to help”"]


def test_phrase_that_changes_equally_in_both_directions_is_ignored():
    before_and_after = [(("x",), ("y",)), (("y",), ("x",))] * 10
    assert changed_phrases(before_and_after) == []


def test_examples_of_a_cluster_are_the_most_typical_ones():
    # One grew by about as much as most, and changed in nothing else; two changed in more.
    extreme = pair("It left.", f"{LONG} " * 20, 1)
    mixed = pair("It left.", f"- {LONG}\n\n**Bold**", 2)
    plain = [pair("It left.", f"{LONG} Bye {n}.", n) for n in range(3, 8)]
    [longer] = [one for one in behaviour_of([extreme, mixed, *plain]).clusters if one.count == 7]
    assert longer.change.words == "longer"
    assert [one.one.rollout for one in longer.examples] == [6, 8, 10]


def test_truncated_reply_is_recognized_by_its_stop_reason():
    assert read("It left", "length").is_cut and not read("It left", "stop").is_cut


def test_wording_clusters_come_last_even_when_they_are_larger():
    reworded = [pair("It left today.", "Hello, it left today.", n) for n in range(9)]
    rewarded = [pair("No.", "Yes.", 9, rule=(0.0, 1.0))]
    kinds = [one.change.kind for one in behaviour_of([*reworded, *rewarded]).clusters]
    assert "wording" in kinds and kinds == sorted(kinds, key="wording".__eq__)
    assert kinds[0] == "reward"
