"""A scorer that hangs, crashes or eats memory costs its own question and nothing else."""

import pytest

from apps.rewards.scoring import Question
from workers.grading import Grader


@pytest.fixture
def grader():
    grader = Grader(seconds=5)
    yield grader
    grader.stop()


def question(text: str, scorer: str = "sort") -> Question:
    return Question(1, 1, scorer, [{"role": "user", "content": "31425"}], text, {"sorted": "12345"})


def test_answers_come_back_in_order(grader):
    verdicts = grader.grade([question("12345"), question("54321"), question("12345")])
    assert [verdict.value for verdict in verdicts] == [1.0, 0.0, 1.0]


def test_an_unknown_scorer_is_null_with_the_reason(grader):
    (verdict,) = grader.grade([question("12345", scorer="srot")])
    assert verdict.value is None and "did you mean 'sort'" in verdict.reason


def test_a_question_that_takes_too_long_is_null_and_the_next_is_judged():
    grader = Grader(seconds=0.0)
    slow = grader.grade([question("12345")])
    grader.seconds = 5
    quick = grader.grade([question("12345")])
    grader.stop()
    assert (slow[0].value, quick[0].value) == (None, 1.0) and "longer than" in slow[0].reason


def test_a_killed_child_is_replaced(grader):
    grader.grade([question("12345")])
    grader.child.kill()
    grader.child.wait()
    assert grader.grade([question("12345")])[0].value == 1.0


def test_hostile_text_is_judged_like_any_other(grader):
    (verdict,) = grader.grade([question("\x00" * 10 + '"}\n{"value": 1}\n')])
    assert verdict.value == 0.0


def test_the_child_sees_no_secrets(grader):
    grader.grade([question("12345")])
    with open(f"/proc/{grader.child.pid}/environ") as file:
        names = {pair.split("=")[0] for pair in file.read().split("\x00") if pair}
    assert names <= {"PYTHONPATH", "LC_CTYPE"}
