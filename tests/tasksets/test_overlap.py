"""The overlap check finds the same pairs as a slow, obvious comparison; case and spacing do not
matter.
"""

import random

import pytest

from apps.tasksets import overlap
from apps.tasksets.importing import generate
from apps.tasksets.models import Task
from apps.tasksets.overlap import (
    WORD,
    WORDS,
    OverlapIndex,
    Pair,
    TooMuch,
    find_overlapping_pairs,
    normalise_words,
)
from apps.tasksets.taskset_overlap import measure_overlap

VOCABULARY = ["one", "two", "three", "four", "five", "+", "-", "(", ")"]
LONG = "A farmer has twelve sheep and sells five of them at the market in spring"


def slowly(checked: list[str], other: list[str], threshold: float, most_shared: int) -> set[Pair]:
    """Return the overlapping pairs, found by comparing every text with every text."""

    def grams(text: str) -> set[tuple]:
        words = WORD.findall(normalise_words(text))
        return {tuple(words[at : at + WORDS]) for at in range(len(words) - WORDS + 1)}

    all_grams = [grams(text) for text in checked]
    template = {
        gram
        for one in all_grams
        for gram in one
        if sum(gram in other for other in all_grams) > most_shared
    }
    found = set()
    for a, text in enumerate(checked):
        for b, said in enumerate(other):
            own = all_grams[a] - template
            if normalise_words(text) == normalise_words(said):
                found.add(Pair(a, b, 1.0, True))
            elif own and len(own & grams(said)) / len(own) >= threshold:
                found.add(Pair(a, b, len(own & grams(said)) / len(own), False))
    return found


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("most_shared", [2, 100])
def test_overlap_check_finds_the_same_pairs_as_a_full_comparison(monkeypatch, seed, most_shared):
    monkeypatch.setattr(overlap, "MAX_SHARED", most_shared)
    draw = random.Random(seed)
    pieces = [" ".join(draw.choices(VOCABULARY, k=draw.randint(1, 9))) for _ in range(6)]

    def texts() -> list[str]:
        return [" ".join(draw.choices(pieces, k=draw.randint(1, 4))) for _ in range(12)]

    checked = texts()
    other = texts()
    for threshold in (0.01, 0.5, 0.7, 1.0):
        assert set(find_overlapping_pairs(checked, other, threshold)) == slowly(
            checked, other, threshold, most_shared
        )


def test_case_spacing_and_unicode_form_do_not_make_texts_different():
    assert list(find_overlapping_pairs(["Ｃafé  au\nlait"], ["cafe\u0301 AU lait"])) == [
        Pair(0, 0, 1.0, True)
    ]


def test_punctuation_makes_texts_different():
    assert list(find_overlapping_pairs(["2+2"], ["2-2", "2*2", "2+2"])) == [Pair(0, 2, 1.0, True)]


def test_text_contained_in_a_longer_one_is_found_with_its_share():
    (found,) = find_overlapping_pairs(
        [LONG], [f"Read this. {LONG}, every year. How many are left?"]
    )
    assert (found.share, found.is_exact) == (1.0, False)
    (found,) = find_overlapping_pairs([f"{LONG} to two people"], [LONG])
    assert found.share == pytest.approx(8 / 11)


def test_share_is_measured_on_the_checked_text():
    assert list(find_overlapping_pairs([LONG + " " + " ".join(map(str, range(100)))], [LONG])) == []


def test_template_shared_by_all_texts_makes_no_pair():
    template = "Answer with one number and nothing else, please, as short as you can: "
    many = [f"{template}{n} plus one" for n in range(150)]
    assert (
        list(find_overlapping_pairs(many, [f"{template}{n} plus one" for n in range(200, 210)]))
        == []
    )
    assert [pair.is_exact for pair in find_overlapping_pairs(many, many[:3])] == [True] * 3


@pytest.mark.parametrize("side", [([], ["a"]), (["a"], []), ([""], ["b"]), ([], [])])
def test_empty_side_has_no_overlap(side):
    assert list(find_overlapping_pairs(*side)) == []


def test_side_with_too_many_grams_is_refused():
    with pytest.raises(TooMuch, match="more than 5 8-grams"):
        OverlapIndex([LONG], limit=5)


@pytest.mark.django_db
def test_two_stored_tasksets_are_compared_task_by_task(project):
    test = generate(project, "test", "tone", 30, seed=1)
    train = generate(project, "train", "tone", 300, seed=2)
    told = []
    found = measure_overlap(test, train, tell=told.append)
    questions = [
        [task.question for task in Task.objects.filter(taskset=one).order_by("index")]
        for one in (test, train)
    ]
    expected = {
        (a, b)
        for a, x in enumerate(questions[0])
        for b, y in enumerate(questions[1])
        if normalise_words(x) == normalise_words(y)
    }
    assert (
        {(pair.checked, pair.other) for pair in found.pairs if pair.is_exact} == expected != set()
    )
    assert (found.tasks, found.others, found.count) == (30, 300, len(told))
    assert found.exact == len({a for a, _ in expected})


@pytest.mark.django_db
def test_taskset_overlaps_fully_with_itself(project):
    taskset = generate(project, "one", "sort", 1_200, seed=1)
    seen = []
    found = measure_overlap(taskset, taskset, progress=seen.append)
    assert (found.exact, found.share) == (1_200, 1.0) and seen == [1_000, 2_200]
