"""A run's ratings, also late ones, become preferences once; ratings left out are counted with their
reason.
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
    """Create two replies of one group, "good" and "poor"."""
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


def test_late_comparison_becomes_a_preference_with_its_task_and_author(run, replies, bob):
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


def test_stars_become_a_pair_only_within_one_person_and_group(run, replies, alice, bob):
    good, poor = replies
    say(bob, "stars", {"stars": 5}, [good])
    say(bob, "stars", {"stars": 2}, [poor])
    say(alice, "stars", {"stars": 4}, [good])
    drawn = draw_rated(run)
    assert (drawn.new, drawn.ratings, drawn.skipped[NO_ORDER]) == (1, 2, 1)
    assert Preference.objects.get().margin == 0.75


def test_drawing_again_creates_no_duplicates(run, replies, bob):
    say(bob, "pairwise", {"preference": -2}, replies)
    say(
        bob, "pairwise", {"preference": -1}, replies
    )  # the same pair again with a smaller margin: the first is kept
    assert (draw_rated(run).new, Preference.objects.get().margin) == (1, pytest.approx(2 / 3))
    again = draw_rated(run)
    assert (again.new, again.existing, Preference.objects.count()) == (0, 2, 1)


def test_ratings_left_out_are_counted_with_their_reason(run, replies, alice, bob):
    taken_back = say(bob, "pairwise", {"preference": 1}, replies, is_current=False)
    overruled = say(alice, "pairwise", {"preference": 3}, replies)
    Adjudication.objects.create(item=overruled.item, rating=taken_back)
    say(bob, "critique", {}, replies[:1])
    drawn = draw_rated(run)
    assert +drawn.skipped == {WITHDRAWN: 1, SETTLED: 1, NO_ORDER: 1} and drawn.new == 0


def test_flagged_replies_and_dialogues_give_no_preferences(run, replies, finish, alice, bob):
    say(bob, "pairwise", {"preference": 1}, replies)
    say(alice, "flag", {"reason": "cut off"}, replies[:1])
    [other] = finish(run, ["yes", "no"])
    first = other.rollouts.order_by("sample_index").first()
    turns = [{"role": "assistant", "start": 0, "end": 1}, {"role": "user", "start": 1, "end": 2}]
    Rollout.objects.filter(pk=first.pk).update(turns=turns)
    say(bob, "pairwise", {"preference": 1}, list(other.rollouts.order_by("sample_index")))
    drawn = draw_rated(run)
    assert +drawn.skipped == {FLAGGED: 2, DIALOGUE: 1} and drawn.new == 0
