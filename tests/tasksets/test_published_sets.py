"""Rows with the columns of published data sets, imported with the commands that users run."""

import io
import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from apps.feedback.models import Demonstration, Preference
from apps.rewards.scorers import RolloutView, TaskView, find_scorer
from apps.tasksets.models import Task

pytestmark = pytest.mark.django_db
USER = {"role": "user", "content": "2+2?"}
SAID = {"role": "assistant", "content": "It is 4."}
SOLVED = {"problem": "2+2?", "solution": "2+2 is 4.", "answer": "4"}
NUMINA = {**SOLVED, "problem_type": "Algebra", "question_type": "MCQ", "source": "olympiads"}
VALID = {"problem_is_valid": "Yes", "solution_is_valid": "Yes", "synthetic": False}
OPEN_MATH = {"problem": "2+2?", "generated_solution": "It is 4.", "expected_answer": "4"}
S1 = {"question": "2+2?", "solution": "4", "cot_type": "math", "source_type": "s", "metadata": "{}"}
JUDGED = {
    "deepseek_thinking_trajectory": "Hm, 5.",
    "deepseek_attempt": "It is 5.",
    "deepseek_grade": "No",
    "gemini_thinking_trajectory": "Two, two.",
    "gemini_attempt": "It is 4.",
    "gemini_grade": "Yes",
}
THOUGHT = "<think>\nTwo, two.\n</think>\n\nIt is 4."
CODE = {
    "language": "python",
    "test_cases": [{"type": "stdin_stdout", "input": "1\n", "output": "2\n", "fn_name": None}],
}
PASSAGES = {"title": ["Ann", "Bob"], "sentences": [["Ann ", "is old."], ["Bob is not."]]}
EDIT = {"domain": "general", "language": "english", "context": [USER], "change_summary": "c"}

# (the row, what the prompt ends with, the scorer, a right reply, a wrong one)
TASKS: dict[str, tuple[dict, str, str, str, str]] = {
    "IFEval": (
        {
            "key": 1,
            "prompt": "Greet me.",
            "instruction_id_list": ["punctuation:no_comma", "startend:end_checker"],
            "kwargs": [{}, {"end_phrase": "Bye.", "keywords": None}],
        },
        "Greet me.",
        "instructions",
        "Hello. Bye.",
        "Hello, you. Bye.",
    ),
    "Tulu 3, RLVR": (
        {
            "messages": [{"role": "user", "content": "Greet me."}],
            "ground_truth": '{"func_name": "validate_lowercase", "N": null}',
            "dataset": "ifeval",
        },
        "Greet me.",
        "instructions",
        "hello to you.",
        "Hello.",
    ),
    "ARC-AGI": (
        {
            "train": [{"input": [[1, 2]], "output": [[2, 1]]}],
            "test": [{"input": [[3, 4]], "output": [[4, 3]]}],
        },
        "Test 1\nInput: [[3, 4]]",
        "grid",
        "The rows turn: [[4, 3]]",
        "[[3, 4]]",
    ),
    "QuALITY": (
        {"article": "Ann ran.", "question": "Who?", "options": ["Bob", "Ann"], "gold_label": 2},
        "Who?\n\nA. Bob\nB. Ann",
        "choice",
        "B",
        "A. Ann",
    ),
    "Orca-Math": (
        {
            "question": "How many are 12 boxes of 10?",
            "answer": "We multiply 12 boxes by 10 each.\n12 * 10 = 120\nSo there are 120 apples.",
        },
        "How many are 12 boxes of 10?",
        "math",
        "120",
        "10",
    ),
    "NuminaMath-CoT": (
        {
            "source": "amc",
            "problem": "2+2?",
            "solution": r"So \boxed{4}.",
            "messages": [USER, SAID],
        },
        "2+2?",
        "math",
        "4",
        "5",
    ),
    "NuminaMath-1.5": ({**NUMINA, **VALID}, "2+2?", "math", "4", "5"),
    "DeepScaleR": (SOLVED, "2+2?", "math", "4", "5"),
    "OpenMathInstruct-2": ({**OPEN_MATH, "problem_source": "math"}, "2+2?", "math", "4", "5"),
    "LIMO": ({"question": "2+2?", "solution": "So 4.", "answer": "4"}, "2+2?", "math", "4", "5"),
    "s1K": ({**S1, "thinking_trajectories": ["x"], "attempt": "4"}, "2+2?", "math", "4", "5"),
    "DAPO-17k": (
        {
            "data_source": "math_dapo",
            "prompt": [USER],
            "ability": "MATH",
            "reward_model": {"ground_truth": "4", "style": "rule-lighteval/MATH_v2"},
            "extra_info": {"index": "a"},
        },
        "2+2?",
        "math",
        "4",
        "5",
    ),
    "Big-Math": (
        {
            "problem": "2+2?",
            "answer": "4",
            "source": "orca_math",
            "domain": ["Mathematics -> Algebra -> Other"],
            "llama8b_solve_rate": 0.5,
        },
        "2+2?",
        "math",
        "4",
        "5",
    ),
    "SYNTHETIC-1": (
        {
            "problem_id": "p",
            "task_type": "verifiable_math",
            "prompt": "2+2?",
            "verification_info": "{'ground_truth': '4'}",
        },
        "2+2?",
        "math",
        "4",
        "5",
    ),
    "SYNTHETIC-2, code": (
        {
            "problem_id": "p",
            "task_type": "prime_rl_code",
            "prompt": "Add one.",
            "verification_info": json.dumps(CODE),
        },
        "Add one.",
        "code",
        "```python\nprint(int(input()) + 1)\n```",
        "```python\nprint(int(input()))\n```",
    ),
    "TruthfulQA, multiple choice": (
        {
            "question": "Is it so?",
            "mc1_targets": {"choices": ["Yes", "No", "Maybe"], "labels": [1, 0, 0]},
            "mc2_targets": {"choices": ["Yes", "No"], "labels": [1, 0]},
        },
        "Is it so?\n\nA. Yes\nB. No\nC. Maybe",
        "choice",
        "A",
        "B",
    ),
    "TruthfulQA, generation": (
        {
            "type": "Adversarial",
            "category": "Misc",
            "question": "Why?",
            "best_answer": "No reason.",
            "correct_answers": ["No reason."],
            "incorrect_answers": ["Fate.", "Luck."],
            "source": "s",
        },
        "Why?\n\nA. Luck.\nB. Fate.\nC. No reason.",
        "choice",
        "C",
        "A",
    ),
    "WinoGrande": (
        {"sentence": "Ann thanked Eve, as _ helped.", "option1": "Ann", "option2": "Eve"}
        | {"answer": "2"},
        "Which of these belongs in the place of _?\n\nA. Ann\nB. Eve",
        "choice",
        "B",
        "A",
    ),
    "PIQA": (
        {"goal": "Cool it.", "sol1": "Use ice.", "sol2": "Use fire.", "label": 0},
        "Which of these reaches the goal?\n\nA. Use ice.\nB. Use fire.",
        "choice",
        "A",
        "B",
    ),
    "SocialIQA": (
        {"context": "Ann fell.", "question": "Why?", "answerA": "Ice.", "answerB": "Fun."}
        | {"answerC": "Joy.", "label": "1"},
        "Ann fell.\n\nWhy?\n\nA. Ice.\nB. Fun.\nC. Joy.",
        "choice",
        "A",
        "B",
    ),
    "RACE": (
        {"example_id": "h", "article": "Ann fell.", "question": "Who fell?", "answer": "B"}
        | {"options": ["Eve", "Ann"]},
        "Ann fell.\n\nWho fell?\n\nA. Eve\nB. Ann",
        "choice",
        "B",
        "A",
    ),
    "ReClor": (
        {"context": "Ann fell.", "question": "Who?", "answers": ["Eve", "Ann"], "label": 1}
        | {"id_string": "t"},
        "Ann fell.\n\nWho?\n\nA. Eve\nB. Ann",
        "choice",
        "B",
        "A",
    ),
    "BoolQ": (
        {"question": "is it red", "passage": "It is red.", "answer": True},
        "It is red.\n\nis it red",
        "short_answer",
        "Yes, it is.",
        "No.",
    ),
    "SQuAD": (
        {"id": "i", "title": "T", "context": "Ann fell.", "question": "Who?"}
        | {"answers": {"text": ["Ann", "Ann"], "answer_start": [0, 0]}},
        "Ann fell.\n\nWho?",
        "short_answer",
        "Ann",
        "Eve",
    ),
    "TriviaQA": (
        {"question": "Who?", "question_id": "q", "answer": {"value": "Bob", "aliases": ["Rob"]}},
        "Who?",
        "short_answer",
        "Rob",
        "Ann",
    ),
    "HotpotQA": (
        {"id": "i", "question": "Who is old?", "answer": "Ann", "context": PASSAGES},
        "Ann\nAnn is old.\n\nBob\nBob is not.\n\nWho is old?",
        "short_answer",
        "Ann",
        "Bob",
    ),
}
DEMONSTRATIONS: dict[str, tuple[dict, list[str]]] = {
    "OpenMathInstruct-2": (OPEN_MATH, ["It is 4."]),
    "LIMO": ({"question": "2+2?", "solution": "It is 4.", "answer": "4"}, ["It is 4."]),
    "NuminaMath-1.5": ({**NUMINA, **VALID}, ["2+2 is 4."]),
    "s1K": (
        {**S1, "thinking_trajectories": ["Two, two."], "attempt": "It is 4."},
        [THOUGHT],
    ),
    "s1K-1.1": ({**S1, **JUDGED}, [THOUGHT]),
    "DeepMath": (
        {"question": "2+2?", "final_answer": "4", "difficulty": 1.0, "topic": "Algebra"}
        | {"r1_solution_1": "It is 4.", "r1_solution_2": "Four: 4."},
        ["It is 4.", "Four: 4."],
    ),
    "HelpSteer3, edits": (
        {**EDIT, "original_response": "No idea.", "edited_response": "It is 4."},
        ["It is 4."],
    ),
    "Capybara": (
        {"source": "s", "conversation": [{"input": "2+2?", "output": "It is 4."}]},
        ["It is 4."],
    ),
}
PREFERENCES: dict[str, dict] = {
    "HelpSteer3, edits": {
        **EDIT,
        "original_response": "No idea.",
        "edited_response": "It is 4.",
        "feedback": ["Say it."],
    },
    "HelpSteer3, quality of edits": {
        **EDIT,
        "original_response": "Hm.",
        "good_edited_response": "It is 4.",
        "bad_edited_response": "No idea.",
    },
}
REFUSED = {
    "a problem that is none": (
        "taskset",
        {**NUMINA, **VALID, "problem_is_valid": "Incomplete"},
        "problem_is_valid: is 'Incomplete'",
    ),
    "a wrong solution": (
        "demonstrations",
        {**NUMINA, **VALID, "solution_is_valid": "No"},
        "solution_is_valid: is 'No'",
    ),
    "answers that are all wrong": (
        "demonstrations",
        {**S1, **JUDGED, "gemini_grade": "No"},
        "no answer is graded as right",
    ),
    "an answer of a test set that is not told": (
        "taskset",
        {"goal": "Cool it.", "sol1": "Use ice.", "sol2": "Use fire.", "label": -1},
        "label: must be a number from 0 to 1",
    ),
    "a question without an answer": (
        "taskset",
        {"context": "Ann fell.", "question": "Why?", "answers": {"text": [], "answer_start": []}},
        "answers.text: has no answer",
    ),
}


@pytest.fixture
def import_row(project, tmp_path):
    def run(command: str, row: dict) -> str:
        path = tmp_path / "rows.jsonl"
        path.write_text(json.dumps(row) + "\n")
        out = io.StringIO()
        call_command(command, "import", str(path), stdout=out, stderr=out)
        return out.getvalue()

    return run


@pytest.mark.parametrize("name", TASKS)
def test_published_task_is_imported_and_its_scorer_rewards_only_the_right_answer(import_row, name):
    row, asked, scorer, right, wrong = TASKS[name]
    import_row("taskset", row)
    task = Task.objects.get()
    assert task.prompt[-1]["content"].endswith(asked)
    view = TaskView(task.prompt, task.answer)
    verdicts = find_scorer(scorer).judge([RolloutView(right), RolloutView(wrong)], view)
    assert [verdict.value for verdict in verdicts] == [1.0, 0.0]


@pytest.mark.parametrize("name", DEMONSTRATIONS)
def test_published_demonstration_is_imported_with_its_complete_answer(import_row, name):
    row, answers = DEMONSTRATIONS[name]
    import_row("demonstrations", row)
    stored = Demonstration.objects.order_by("pk")
    assert [one.answer for one in stored] == answers
    assert stored[0].prompt == [USER]


@pytest.mark.parametrize("name", PREFERENCES)
def test_published_preference_is_imported_with_the_better_answer_chosen(import_row, name):
    import_row("preferences", PREFERENCES[name])
    pair = Preference.objects.get()
    assert (pair.prompt, pair.chosen, pair.rejected) == ([USER], "It is 4.", "No idea.")


@pytest.mark.parametrize("name", REFUSED)
def test_row_that_people_rated_bad_is_refused_with_its_field(import_row, name):
    command, row, reason = REFUSED[name]
    with pytest.raises(CommandError) as refusal:
        import_row(command, row)
    assert reason in str(refusal.value)


def test_choices_beyond_the_tenth_are_reported_as_skipped(import_row):
    texts = [f"No {number}." for number in range(13)]
    row = {"question": "Why?", "mc1_targets": {"choices": texts, "labels": [1, *[0] * 12]}}
    assert "mc1_targets.choices beyond 10" in import_row("taskset", row)
    answer = Task.objects.get().answer
    assert len(answer["choices"]) == 10 and answer["choices"][answer["value"]] == texts[0]
