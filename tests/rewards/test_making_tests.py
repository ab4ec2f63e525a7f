"""Generated tests for tasks without tests: cases are kept by agreement, tasks by passing
submissions; katas serve as an example.
"""

import io
from dataclasses import replace

import pytest
from django.core.management import CommandError, call_command

from apps.rewards.code.making import MadeTests, Submission, Thresholds, make_tests
from apps.rewards.scorers import RolloutView, TaskView, find_scorer
from apps.tasksets.generators.katas import KATAS, Exercise, generate
from apps.tasksets.models import Taskset

DRAWS = "print(int(input()) * 3)"
RIGHT = "print(int(input()) + 1)"
WRONG = "print(int(input()) + 2)"
RARELY_WRONG = "n = int(input())\nprint(n + 1 + (n == 6))"
FEW = Thresholds(agree=3, admit=4, max_inputs=4, min_cases=2)


def made(
    submissions: list[str], generators: tuple[str, ...] = (DRAWS,), thresholds: Thresholds = FEW
) -> MadeTests:
    return make_tests(generators, [Submission(code) for code in submissions], thresholds=thresholds)


def test_cases_that_submissions_agree_on_are_kept_if_enough_submissions_pass():
    found = made([RIGHT] * 4 + [WRONG])
    assert found.answer == {
        "tests": [{"stdin": f"{n}\n", "stdout": f"{n + 1}\n"} for n in (0, 3, 6, 9)]
    }
    assert (found.refused, found.passed, found.dropped) == ("", 4, ())


def test_case_without_agreement_is_dropped_with_the_count():
    found = made([RIGHT, RIGHT, RARELY_WRONG, RARELY_WRONG])
    assert [case.stdin for case in found.tests.cases] == ["0\n", "3\n", "9\n"] and not found.refused
    assert found.dropped == ("input 3: 2 of 4 submissions agree, at least 3 are required",)


def test_task_is_refused_if_too_few_submissions_pass_all_cases():
    assert (
        made([RIGHT, RIGHT, RIGHT, RARELY_WRONG]).refused
        == "3 submissions pass all kept cases, at least 4 are required"
    )
    assert (
        made([RIGHT, RIGHT, WRONG, WRONG]).refused == "0 cases were kept, at least 2 are required"
    )


@pytest.mark.parametrize(
    ("generator", "reason"),
    [("1/0", "ZeroDivisionError"), ("print('\\0')", "NUL"), ("print('9' * 100_000)", "more than")],
)
def test_failing_generator_drops_its_inputs_with_the_reason(generator, reason):
    found = made([RIGHT] * 4, (DRAWS, generator))
    assert (
        len(found.tests.cases) == 2
        and all(reason in line for line in found.dropped)
        and len(found.dropped) == 2
    )


def test_function_calls_get_tests_too():
    submissions = [Submission("def f(a, b):\n    return [a, b]")] * 4
    found = make_tests(
        ["n = int(input())\nprint([n, [n]])"], submissions, "f", replace(FEW, max_inputs=2)
    )
    assert found.answer == {
        "function": "f",
        "tests": [{"args": [n, [n]], "value": [n, [n]]} for n in (0, 1)],
    }


def test_too_few_submissions_or_no_generator_are_refused():
    with pytest.raises(ValueError, match="at least 4 are required, found 1"):
        made([RIGHT])
    with pytest.raises(ValueError, match="generators"):
        made([RIGHT] * 4, ())


@pytest.mark.parametrize("number", [0, 1], ids=["function", "program"])
@pytest.mark.parametrize("kata", KATAS, ids=[kata.name for kata in KATAS])
def test_every_kata_accepts_its_right_submission_and_refuses_the_wrong_one(kata, number):
    one = Exercise(kata, 3, number)
    task = TaskView((), one.answer(one.calls()))
    texts = [f"```python\n{one.submission(is_right)}\n```" for is_right in (True, False)]
    said = find_scorer("code").judge([RolloutView(text) for text in texts], task)
    assert [verdict.value for verdict in said] == [1.0, 0.0], said


def test_there_are_at_least_12_katas_and_prompts_do_not_reveal_their_tests():
    assert len(KATAS) >= 12
    for row in generate(100, 5):
        tests = row.answer["tests"]
        assert row.domain == "code" and len(tests) == 10
        given = [
            (
                f"for {test['stdin'].strip()} it prints"
                if "stdin" in test
                else f"({test['args'][0]!r}) is"
            )
            for test in tests
        ]
        assert not any(words in row.prompt[0]["content"] for words in given)


@pytest.mark.django_db
def test_command_creates_a_taskset_of_the_tasks_that_got_tests(project):
    def said(*arguments: object) -> str:
        out = io.StringIO()
        call_command("taskset", *map(str, arguments), stdout=out)
        return out.getvalue()

    said("generate", "katas_untested", "--size", 2, "--seed", 1)
    told = said("tests", "katas_untested", "--max-inputs", 3, "--agree", 7, "--admit", 9)
    tested = Taskset.objects.get(slug="katas_untested-tested")
    assert f"{tested.size} tasks" in told and told.count("cases kept") == 2
    assert all(
        task.answer["tests"] and "submissions" not in task.meta for task in tested.tasks.all()
    )
    with pytest.raises(CommandError, match="--name"):
        said("tests", "katas_untested", "--max-inputs", 3)
    with pytest.raises(CommandError, match="agree: 0"):
        said("tests", "katas_untested", "--agree", 0)
