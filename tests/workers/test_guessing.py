"""Which tasks are guessed right without thinking: a real small policy guesses on the real engine,
and real scorers score.
"""

from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from apps.feedback.models import Guess
from apps.feedback.suspicions.guesses import (
    GuessCheck,
    list_correctness_scorers,
    list_unguessed_tasks,
    without_guessed,
)
from apps.policies.manifest import read_manifest
from apps.policies.models import Policy
from apps.runs.config import ScorerChoice
from apps.tasksets.models import Task
from apps.tasksets.storing import Origin
from workers.chat_encoder import ChatEncoder
from workers.explorer.chat_tokenizer import ChatTokenizer
from workers.guessing.guesses import guess, instructed
from workers.policies.tiny import build_tiny

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def untrained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("policies") / "sort"
    build_tiny(folder)
    return folder


@pytest.fixture
def guesser(policy, untrained) -> Policy:
    fields = {
        "folder": str(untrained),
        "fingerprint": read_manifest(untrained).fingerprint,
        "context_tokens": 128,
    }
    Policy.objects.filter(pk=policy.pk).update(**fields)
    policy.refresh_from_db()
    return policy


def test_guessable_tasks_are_distinguished_from_others(guesser, taskset):
    """An untrained policy sometimes replies with a digit: an answer of one digit is guessed, an
    answer in words is not.
    """
    by_index = {task.index: task for task in taskset.tasks.all()}
    taskset.tasks.update(answer={"value": "no policy says this at random"})
    check = GuessCheck([ScorerChoice(scorer="math")], tries=64, max_tokens=1, instruction="")
    easy = by_index[0]
    hard = by_index[1]
    Task.objects.filter(pk=easy.pk).update(answer={"value": [str(digit) for digit in range(10)]})
    tally = guess(
        list_unguessed_tasks(taskset, guesser, force=False, limit=2),
        guesser,
        check,
        engine="transformers",
    )
    found = {guess.task_id: guess for guess in Guess.objects.all()}
    assert (tally.checked, tally.easy) == (2, 1) and set(found) == {easy.pk, hard.pk}
    assert (
        found[easy.pk].right > 0 == found[hard.pk].right
        and found[easy.pk].tries == found[hard.pk].tries == 64
    )
    assert found[easy.pk].example.strip() in list("0123456789")
    assert list_unguessed_tasks(taskset, guesser, force=False, limit=None) == [
        by_index[2].pk,
        by_index[3].pk,
    ], "it continues where it stopped"
    left = without_guessed(taskset, guesser, Origin(taskset.project, "left", "Left", "test"))
    assert left.size == 3 and easy.prompt not in [task.prompt for task in left.tasks.all()]


def test_task_that_no_scorer_can_score_has_no_guess(guesser, taskset):
    taskset.tasks.update(answer={})
    tally = guess(
        list_unguessed_tasks(taskset, guesser, False, 1),
        guesser,
        GuessCheck([ScorerChoice(scorer="math")], 2, 3, instruction=""),
    )
    assert (tally.checked, tally.unjudged) == (0, 1) and not Guess.objects.exists()


def test_only_correctness_scorers_check_guesses(plan):
    rewards = [{"scorer": name} for name in ("sort", "format", "length", "repetition")]
    assert [choice.scorer for choice in list_correctness_scorers(plan(rewards=rewards))] == ["sort"]


def test_instruction_is_appended_to_the_question():
    asked = [{"role": "system", "content": "s"}, {"role": "user", "content": "2+2?"}]
    assert (
        instructed(asked, "At once.")[1]["content"] == "2+2?\n\nAt once."
        and asked[1]["content"] == "2+2?"
    )
    parts = [{"role": "user", "content": [{"type": "image"}]}]
    assert instructed(parts, "At once.")[0]["content"][-1] == {"type": "text", "text": "At once."}


@pytest.mark.parametrize("end", ["", "<think>", "<think></think>"])
def test_thinking_policy_is_prevented_from_thinking(untrained, end):
    chat_tokenizer = ChatTokenizer(untrained)
    plain = chat_tokenizer.prompt_ids([{"role": "user", "content": "3 1 2"}])
    assert chat_tokenizer.without_thoughts(plain) == plain, "this template has no thoughts"
    chat_tokenizer.tokenizer.chat_template = "{{ '<think>' }}"
    chat_tokenizer.tokenizer.add_tokens(["<think>", "</think>"])
    chat_tokenizer.encoder = ChatEncoder(
        chat_tokenizer.tokenizer
    )  # an encoder knows only the tokens present when it is created
    begun = (*plain, *chat_tokenizer.tokenizer.encode(end, add_special_tokens=False))
    said = chat_tokenizer.tokenizer.decode(chat_tokenizer.without_thoughts(begun))
    assert said.count("<think>") == said.count("</think>") == 1, "the thoughts are closed"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing", "--scorer", "math", "--policy", "tiny"], "no taskset"),
        (["sort", "--scorer", "math", "--policy", "none"], "--policy"),
        (["sort", "--scorer", "format", "--policy", "tiny"], "only the form of a reply"),
        (["sort", "--scorer", "judge", "--policy", "tiny"], "calls a model"),
        (["sort", "--scorer", "math", "--policy", "tiny", "--tries", "0"], "--tries"),
    ],
)
def test_guesses_command_reports_the_error(policy, taskset, arguments, said):
    with pytest.raises(CommandError, match=said):
        call_command("taskset", "guesses", *arguments)
