"""Long to short: which answers become demonstrations, and which become rejected answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.feedback.brevity_lessons import (
    Answer,
    draw_demonstrations,
    draw_preferences,
    rejected,
    shortest_right,
)
from apps.feedback.models import Demonstration, Preference
from apps.pipelines.refining import refine
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.models import Group, Rollout


def test_the_shortest_right_answer_is_chosen_and_the_first_of_equals():
    answers = [
        Answer("a", 2, False),
        Answer("b", 4, True),
        Answer("c", 3, True),
        Answer("d", 3, True),
    ]
    assert shortest_right(answers).text == "c"


def test_truncated_answer_is_not_chosen():
    assert shortest_right([Answer("a", 2, True, is_ended=False), Answer("b", 9, True)]).text == "b"
    assert shortest_right([Answer("a", 2, True, is_ended=False)]) is None


def test_longer_wrong_and_much_longer_right_answers_are_rejected():
    chosen = Answer("right", 10, True)
    answers = [
        chosen,
        Answer("wrong and shorter", 9, False),
        Answer("wrong and as long", 10, False),
        Answer("wrong and longer", 11, False),
        Answer("right and half as long again", 15, True),
        Answer("right and longer than that", 16, True),
    ]
    assert [answer.text for answer in rejected(answers, chosen)] == [
        "wrong and longer",
        "right and longer than that",
    ]


answers = st.lists(
    st.builds(Answer, st.text(max_size=3), st.integers(1, 40), st.booleans(), st.booleans()),
    max_size=12,
)


@given(answers, st.floats(1, 3))
def test_every_rejected_answer_is_longer_than_the_chosen_one(found, over):
    if chosen := shortest_right(found):
        texts = [answer.text for answer in rejected(found, chosen, over)]
        assert len(set(texts)) == len(texts) and chosen.text not in texts and "" not in texts
        assert all(
            a.tokens > (over * chosen.tokens if a.is_right else chosen.tokens)
            for a in rejected(found, chosen, over)
        )


@pytest.fixture
def answered(new_run, finish):
    """Return a function that creates a run in which two tasks have four answers each."""

    def make(texts=("12345", "123450000", "99", "999999")):
        run = new_run(group_size=4)
        finish(run, list(texts), groups=2)
        claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 100)
        record_verdicts(
            claimed,
            [
                AnsweredQuestion(
                    q, [Verdict(float(q.rollouts[0].text.startswith("12345")), "test")]
                )
                for q in open_questions(claimed)
            ],
        )
        refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 100))
        return run

    return make


@pytest.mark.django_db
def test_shortest_right_answers_of_a_run_become_demonstrations_once(answered):
    run = answered()
    assert draw_demonstrations(run) == (2, 0)
    assert set(Demonstration.objects.values_list("answer", "run", "source")) == {
        ("12345", run.pk, f"shortest of {run.slug}")
    }
    assert {d.task.prompt[0]["content"] for d in Demonstration.objects.all()} == {
        d.prompt[0]["content"] for d in Demonstration.objects.all()
    }
    assert draw_demonstrations(run) == (0, 2)


@pytest.mark.django_db
def test_longer_answers_of_a_run_become_rejected_answers_once(answered):
    run = answered()
    assert draw_preferences(run) == (4, 0)
    assert set(Preference.objects.values_list("chosen", "rejected")) == {
        ("12345", "123450000"),
        ("12345", "999999"),
    }
    assert draw_preferences(run) == (0, 4)


@pytest.mark.django_db
def test_demonstrations_can_be_limited_to_later_versions(answered):
    run = answered()
    Rollout.objects.filter(text="12345").update(first_version=3)
    assert draw_demonstrations(run, from_version=4) == (0, 0)
    assert draw_demonstrations(run, from_version=3) == (2, 0)


@pytest.mark.django_db
def test_run_without_right_answers_gives_no_lessons(answered):
    run = answered(("99", "98", "97", "96"))
    assert (draw_demonstrations(run), draw_preferences(run)) == ((0, 0), (0, 0))
