"""Seeded generators: deterministic, distinct, and answered as their scorers expect."""

import pytest

from apps.tasksets import tone_language
from apps.tasksets.generators import GENERATORS, find_generator
from apps.tasksets.generators.played import RULES

SLOW = ("pages",)  # each is laid out before it is known
FEW = {
    "pages": 100,
    "sums": 80,
}  # how many are drawn where 500 are too slow, or more than there are
ASKED = sorted(
    set(GENERATORS) - set(RULES)
)  # what is played is told by its rules, and drawn by its seed


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_the_same_seed_gives_the_same_tasks_and_another_seed_others(name):
    size = 10 if name in SLOW else 50
    assert list(find_generator(name)(size, 1)) == list(find_generator(name)(size, 1))
    assert list(find_generator(name)(size, 1)) != list(find_generator(name)(size, 2))


@pytest.mark.parametrize("name", ASKED)
def test_no_prompt_is_drawn_twice(name):
    size = FEW.get(name, 500)
    prompts = [str(row.prompt) for row in find_generator(name)(size, 3)]
    assert len(set(prompts)) == size


@pytest.mark.parametrize("name", sorted(RULES))
def test_no_seed_of_what_is_played_is_drawn_twice(name):
    assert len({row.meta["seed"] for row in find_generator(name)(500, 3)}) == 500


@pytest.mark.parametrize("name", sorted(GENERATORS))
@pytest.mark.parametrize("size", [0, -1, 10**6])
def test_a_size_that_cannot_be_had_is_refused(name, size):
    if name in RULES and size > 0:
        size = 2**31 + 1
    with pytest.raises(ValueError, match="size must be"):
        list(find_generator(name)(size, 1))


def test_sort_is_answered_by_the_sorted_digits():
    assert all(
        row.answer["sorted"] == "".join(sorted(row.prompt[0]["content"]))
        for row in find_generator("sort")(100, 1)
    )


def test_arithmetic_is_answered_by_the_sum():
    for row in find_generator("arithmetic")(100, 1):
        left, right = map(int, row.prompt[0]["content"].split("+"))
        assert row.answer == {"value": left + right}


def test_a_tone_dialogue_has_an_object_for_each_reply_and_no_two_alike_in_a_row():
    for row in find_generator("tone_dialogue")(500, 1):
        messages = [row.prompt[0]["content"], *row.follow_ups]
        assert len(messages) == len(row.answer["objects"]) in (2, 3)
        assert all(
            kind in message for kind, message in zip(row.answer["objects"], messages, strict=True)
        )
        assert row.answer["objects"][1] != row.answer["objects"][0]


def test_support_is_answered_by_the_product_of_the_message():
    rows = list(find_generator("support")(500, 1))
    assert all(row.answer["product"] in row.prompt[-1]["content"] for row in rows)
    assert {row.prompt[0]["role"] for row in rows} == {"system"}


def test_tone_is_answered_by_the_object_of_the_message():
    assert all(
        row.answer["object"] in row.prompt[0]["content"] for row in find_generator("tone")(500, 1)
    )


@pytest.mark.parametrize("place", tone_language.PLACES)
@pytest.mark.parametrize("manner", tone_language.MANNERS)
def test_every_sentence_of_the_language_reads_back_as_it_was_meant(place, manner):
    for text in tone_language.SENTENCES[place][manner]:
        (sentence,) = tone_language.read_reply(text.format(object="radio"))
        assert (sentence.place, sentence.manner) == (place, manner)


def test_an_unknown_generator_is_named_with_the_nearest_one():
    with pytest.raises(LookupError, match="did you mean 'sort'"):
        find_generator("srot")
