"""A run's ratings become preference lessons, late ones too, once, and what is left out is counted
with its reason.
"""

import uuid

import pytest

from apps.feedback.models import Adjudication, Item, Preference, Rating
from apps.feedback.preference_lessons import (
    DIALOGUE,
    FLAGGED,
    NO_ORDER,
    SETTLED,
    WITHDRAWN,
    draw_rated,
)
from apps.rollouts.models import Rollout

pytestmark = pytest.mark.django_db


@pytest.fixture
def replies(run, finish) -> list[Rollout]:
    """Two replies of one group, "good" and "poor"."""
    [group] = finish(run, ["good", "poor"])
    return list(group.rollouts.order_by("sample_index"))


def say(rater, form: str, answer: dict, about: list[Rollout], **fields: object) -> Rating:
    ids = [rollout.pk for rollout in about]
    item = Item.objects.create(
        run=about[0].run, group=about[0].group, form=form, members=sorted(ids)
    )
    return Rating.objects.create(
        item=item,
        rollout=about[0] if len(about) == 1 else None,
        run=item.run,
        rater=rater,
        form=form,
        answer=answer,
        shown=ids,
        client_uuid=uuid.uuid4(),
        **fields,
    )


def test_a_late_pair_is_a_lesson_of_its_task_and_author(run, replies, bob):
    good, poor = replies
    say(bob, "pairwise", {"preference": 3}, [poor, good], is_late=True)
    drawn = draw_rated(run)
    assert (drawn.new, drawn.existing, drawn.ratings, drawn.late) == (1, 0, 1, 1)
    lesson = Preference.objects.get()
    assert (lesson.chosen, lesson.rejected, lesson.margin, lesson.author) == (
        "good",
        "poor",
        1.0,
        bob,
    )
    assert (lesson.task, lesson.run, lesson.prompt) == (
        good.group.task,
        run,
        good.group.task.prompt,
    )


def test_stars_of_one_person_in_a_group_are_a_pair_and_of_two_people_none(run, replies, alice, bob):
    good, poor = replies
    say(bob, "stars", {"stars": 5}, [good])
    say(bob, "stars", {"stars": 2}, [poor])
    say(alice, "stars", {"stars": 4}, [good])
    drawn = draw_rated(run)
    assert (drawn.new, drawn.ratings, drawn.skipped[NO_ORDER]) == (1, 2, 1)
    assert Preference.objects.get().margin == 0.75


def test_drawn_again_nothing_is_doubled(run, replies, bob):
    say(bob, "pairwise", {"preference": -2}, replies)
    say(
        bob, "pairwise", {"preference": -1}, replies
    )  # the same pair once more, less clearly: the first word is kept
    assert (draw_rated(run).new, Preference.objects.get().margin) == (1, pytest.approx(2 / 3))
    again = draw_rated(run)
    assert (again.new, again.existing, Preference.objects.count()) == (0, 2, 1)


def test_what_is_left_out_is_counted_with_its_reason(run, replies, alice, bob):
    taken_back = say(bob, "pairwise", {"preference": 1}, replies, is_current=False)
    overruled = say(alice, "pairwise", {"preference": 3}, replies)
    Adjudication.objects.create(item=overruled.item, rating=taken_back)
    say(bob, "critique", {}, replies[:1])
    drawn = draw_rated(run)
    assert +drawn.skipped == {WITHDRAWN: 1, SETTLED: 1, NO_ORDER: 1} and drawn.new == 0


def test_nothing_is_learned_of_a_broken_reply_nor_of_a_whole_dialogue(
    run, replies, finish, alice, bob
):
    say(bob, "pairwise", {"preference": 1}, replies)
    say(alice, "flag", {"reason": "cut off"}, replies[:1])
    [other] = finish(run, ["yes", "no"])
    first = other.rollouts.order_by("sample_index").first()
    turns = [{"role": "assistant", "start": 0, "end": 1}, {"role": "user", "start": 1, "end": 2}]
    Rollout.objects.filter(pk=first.pk).update(turns=turns)
    say(bob, "pairwise", {"preference": 1}, list(other.rollouts.order_by("sample_index")))
    drawn = draw_rated(run)
    assert +drawn.skipped == {FLAGGED: 2, DIALOGUE: 1} and drawn.new == 0
