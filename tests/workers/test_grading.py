"""A scorer that hangs, crashes or uses too much memory fails only its own question."""

import json
import os
import signal
import subprocess
import sys

import pytest

from apps.rewards.scorers import RolloutView, TaskView, Verdict
from apps.rewards.scoring import Question
from workers.grading import Grader, GradingCost


@pytest.fixture
def grader():
    grader = Grader(children=1)
    yield grader
    grader.stop()


def question(text: str, scorer: str = "sort") -> Question:
    task = TaskView([{"role": "user", "content": "31425"}], {"sorted": "12345"})
    return Question(1, scorer, (1,), (RolloutView(text),), task)


def judged(grader: Grader, *questions: Question, seconds: float | None = None) -> list[Verdict]:
    return [verdict for answer in grader.grade(questions, seconds) for verdict in answer.verdicts]


def test_answers_are_returned_in_order(grader):
    verdicts = judged(grader, question("12345"), question("54321"), question("12345"))
    assert [verdict.value for verdict in verdicts] == [1.0, 0.0, 1.0]


def test_unknown_scorer_gives_null_with_the_reason(grader):
    (verdict,) = judged(grader, question("12345", scorer="srot"))
    assert verdict.value is None and "did you mean 'sort'" in verdict.reason


def test_too_slow_question_gives_null_and_the_next_is_scored(grader):
    judged(grader, question("12345"))
    sleeps = RolloutView("```python\nimport time\ntime.sleep(20)\n```")
    task = TaskView([], {"tests": [{"stdin": "", "stdout": "1"}]})
    slow = judged(grader, Question(1, "code", (1,), (sleeps,), task), seconds=0.01)
    quick = judged(grader, question("12345"))
    assert (slow[0].value, quick[0].value) == (None, 1.0) and "longer than" in slow[0].reason


def test_large_questions_are_sent_one_by_one(grader):
    grader.pace["sort"] = 1e-6
    sizes = [len(part) for part in grader._parts([question("1"), question("1" * 40_000)] * 2)]
    assert sizes == [1, 1, 1, 1]


def test_a_child_that_is_stopped_while_it_loads_is_replaced(grader, monkeypatch):
    judged(grader, question("12345"))
    os.kill(grader.children[0].process.pid, signal.SIGSTOP)
    with monkeypatch.context() as shorter:
        shorter.setattr("workers.grading.START_S", 0.1)
        stuck = judged(grader, question("12345"))
    assert stuck[0].value is None and "did not load" in stuck[0].reason
    assert judged(grader, question("12345"))[0].value == 1.0


def test_time_counts_while_a_child_computes_or_sleeps():
    with subprocess.Popen(["sleep", "60"]) as asleep:
        effort = GradingCost(asleep.pid)
        while not effort.exceeds(0.05):
            assert effort.clock < 30
        assert effort.idle > 0.04 > effort.processor_time
        asleep.kill()
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as at_work:
        effort = GradingCost(at_work.pid)
        while not effort.exceeds(0.05):
            assert effort.clock < 30
        assert effort.processor_time > 0.04
        at_work.kill()


def test_loading_time_of_a_scorer_is_not_counted(grader):
    answer = "9.8 m/s^2"
    task = TaskView([], {"value": answer})
    asked = Question(1, "quantity", (1,), (RolloutView(answer),), task)
    assert judged(grader, asked, seconds=0.3)[0].value == 1.0


def test_a_killed_child_is_replaced(grader):
    judged(grader, question("12345"))
    (child,) = grader.children
    child.process.kill()
    child.process.wait()
    assert judged(grader, question("12345"))[0].value == 1.0


def test_hostile_text_is_scored_like_any_other(grader):
    (verdict,) = judged(grader, question("\x00" * 10 + '"}\n{"value": 1}\n'))
    assert verdict.value == 0.0


def test_output_printed_by_a_library_is_not_an_answer():
    prints = "def judge(_):\n    print('advice')\n    os.write(1, b'more')\n    return []\n"
    program = (
        f"import os, workers.grading_child as child\n{prints}child.judge_question = judge\n"
        "child.main(1 << 30)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input="{}\n{}\n", capture_output=True, text=True, check=True)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert said[:2] == ["up", "ready"] and said[3] == "ready" and len(said) == 5
    assert [answer["verdicts"] for answer in said[2::2]] == [[], []] and "advice" in done.stderr


def test_child_environment_contains_no_secrets(grader):
    judged(grader, question("12345"))
    with open(f"/proc/{grader.children[0].process.pid}/environ") as file:
        names = {pair.split("=")[0] for pair in file.read().split("\x00") if pair}
    assert names <= {"PYTHONPATH", "LC_CTYPE"}


def test_two_children_score_in_parallel_and_answers_keep_their_order():
    grader = Grader(children=2)
    texts = ["12345", "54321"] * 20
    said = judged(grader, *[question(text) for text in texts])
    started = [child for child in grader.children if child.process]
    again = judged(grader, *[question(text) for text in texts])
    grader.stop()
    assert (
        [verdict.value for verdict in said]
        == [verdict.value for verdict in again]
        == [1.0, 0.0] * 20
    )
    assert len(started) == 2
