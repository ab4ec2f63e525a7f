"""Seeded generators: tasks are deterministic and distinct, with the answers that scorers need."""

import pytest

from apps.tasksets import tone_language
from apps.tasksets.generators import GENERATORS, find_generator
from apps.tasksets.generators.played import RULES

SLOW = ("pages",)  # each page is rendered when it is generated
FEW = {
    "pages": 100,
    "sums": 80,
}  # sizes where 500 tasks are too slow, or more than exist
ASKED = sorted(
    set(GENERATORS) - set(RULES)
)  # games have a fixed prompt with their rules, and differ by seed


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_equal_seeds_give_equal_tasks_and_different_seeds_different_tasks(name):
    size = 10 if name in SLOW else 50
    assert list(find_generator(name)(size, 1)) == list(find_generator(name)(size, 1))
    assert list(find_generator(name)(size, 1)) != list(find_generator(name)(size, 2))


@pytest.mark.parametrize("name", ASKED)
def test_generated_prompts_are_distinct(name):
    size = FEW.get(name, 500)
    prompts = [str(row.prompt) for row in find_generator(name)(size, 3)]
    assert len(set(prompts)) == size


@pytest.mark.parametrize("name", sorted(RULES))
def test_generated_game_seeds_are_distinct(name):
    assert len({row.meta["seed"] for row in find_generator(name)(500, 3)}) == 500


@pytest.mark.parametrize("name", sorted(GENERATORS))
@pytest.mark.parametrize("size", [0, -1, 10**6])
def test_invalid_size_is_refused(name, size):
    if name in RULES and size > 0:
        size = 2**31 + 1
    with pytest.raises(ValueError, match="size must be"):
        list(find_generator(name)(size, 1))


def test_sort_answer_is_the_sorted_digits():
    assert all(
        row.answer["sorted"] == "".join(sorted(row.prompt[0]["content"]))
        for row in find_generator("sort")(100, 1)
    )


def test_arithmetic_answer_is_the_sum():
    for row in find_generator("arithmetic")(100, 1):
        left, right = map(int, row.prompt[0]["content"].split("+"))
        assert row.answer == {"value": left + right}


def test_tone_dialogue_has_one_object_per_message_and_the_first_two_differ():
    for row in find_generator("tone_dialogue")(500, 1):
        messages = [row.prompt[0]["content"], *row.follow_ups]
        assert len(messages) == len(row.answer["objects"]) in (2, 3)
        assert all(
            kind in message for kind, message in zip(row.answer["objects"], messages, strict=True)
        )
        assert row.answer["objects"][1] != row.answer["objects"][0]


def test_support_answer_names_the_product_in_the_message():
    rows = list(find_generator("support")(500, 1))
    assert all(row.answer["product"] in row.prompt[-1]["content"] for row in rows)
    assert {row.prompt[0]["role"] for row in rows} == {"system"}


def test_tone_answer_names_the_object_in_the_message():
    assert all(
        row.answer["object"] in row.prompt[0]["content"] for row in find_generator("tone")(500, 1)
    )


@pytest.mark.parametrize("place", tone_language.PLACES)
@pytest.mark.parametrize("manner", tone_language.MANNERS)
def test_every_tone_sentence_is_parsed_to_its_place_and_manner(place, manner):
    for text in tone_language.SENTENCES[place][manner]:
        (sentence,) = tone_language.read_reply(text.format(object="radio"))
        assert (sentence.place, sentence.manner) == (place, manner)


def test_unknown_generator_error_suggests_the_nearest_name():
    with pytest.raises(LookupError, match="did you mean 'sort'"):
        find_generator("srot")
