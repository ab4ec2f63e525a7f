"""Dispatch of questions to a run's scorers: rules in child processes, judge and reward models."""

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import structlog

from apps.policies.damage import DamagedWeights
from apps.rewards import learned, scorers
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, Question, Values, judges_groups, known_values
from apps.rollouts.models import Group
from apps.runs.costs import CPU, GPU
from workers.grading import Grader
from workers.judge_models import ask_judges

if TYPE_CHECKING:
    from workers.reward_models import RewardModels

log = structlog.get_logger(__name__)


@cache
def grader() -> Grader:
    return Grader()


def answer_questions(
    groups: Sequence[Group], questions: Sequence[Question], earlier: Values | None = None
) -> list[AnsweredQuestion]:
    """Return each question with its verdicts.

    Scorers of whole groups come last, with the results of the others. `earlier` holds earlier
    results; by default those stored for the groups.
    """
    single = [question for question in questions if not judges_groups(question.scorer)]
    together = [question for question in questions if judges_groups(question.scorer)]
    by_model = [question for question in single if learned.is_learned(question.scorer)]
    answers = by_rule(
        [question for question in single if not learned.is_learned(question.scorer)]
    ) + learned_words(groups, by_model)
    if not together:
        return answers
    known_by_rollout = {
        pk: dict(values)
        for pk, values in (known_values(groups) if earlier is None else earlier).items()
    }
    for answer in answers:
        for pk, verdict in zip(answer.question.rollout_ids, answer.verdicts, strict=True):
            known_by_rollout.setdefault(pk, {})[answer.question.scorer] = verdict.value
    return answers + by_rule([question.with_values(known_by_rollout) for question in together])


def by_rule(questions: Sequence[Question]) -> list[AnsweredQuestion]:
    """Answer questions by rules in killable children, and by judge models where rules do not.

    Scorers that only ask a model skip the rules.
    """
    graded = grader().grade([question for question in questions if not _only_asks(question.scorer)])
    undecided = [answer for answer in graded if _may_ask(answer)]
    replies = ask_judges(
        [answer.question for answer in undecided]
        + [question for question in questions if _only_asks(question.scorer)]
    )
    pairs = zip(undecided, replies, strict=False)  # questions that only ask a model are after them
    decided = [
        replace(
            by_model,
            seconds=(by_rules.seconds or 0) + (by_model.seconds or 0),
            used={**by_rules.used, **by_model.used},
        )
        for by_rules, by_model in pairs
    ]
    undecided_ids = {id(answer) for answer in undecided}
    return (
        [answer for answer in graded if id(answer) not in undecided_ids]
        + decided
        + replies[len(undecided) :]
    )


def _only_asks(scorer: str) -> bool:
    return scorer in scorers.scorer_names() and scorers.find_scorer(scorer).only_asks


def _may_ask(answer: AnsweredQuestion) -> bool:
    if not any(verdict.undecided for verdict in answer.verdicts):
        return False
    scorer = scorers.find_scorer(answer.question.scorer)
    return scorer.asks and scorer.judge_options(answer.question.options) is not None


def learned_words(groups: Sequence[Group], questions: Sequence[Question]) -> list[AnsweredQuestion]:
    """Answer questions by the reward models of the groups' projects, one batch per model."""
    projects = {group.pk: group.run.project_id for group in groups}
    batches = defaultdict(list)
    for question in questions:
        batches[projects[question.group_id], question.scorer].append(question)
    return [
        answer
        for (project, scorer), some in batches.items()
        for answer in judge_with_reward_model(project, scorer, some)
    ]


def judge_with_reward_model(
    project: int, scorer: str, questions: Sequence[Question]
) -> list[AnsweredQuestion]:
    """Score questions with a reward model; NULL with the reason when it cannot be loaded."""
    began = time.monotonic()
    unit = CPU
    try:
        folder = learned.find_reward_model(project, scorer).folder
        model = reward_models().of(folder)
        unit = GPU if model.device == "cuda" else CPU
        verdicts = model.judge(
            [(question.task.prompt, question.rollouts[0].text) for question in questions]
        )
    except (LookupError, OSError, DamagedWeights) as error:
        log.error("reward_model_unusable", scorer=scorer, error=str(error))
        verdicts = [Verdict(None, f"scorer {scorer}: {error}"[:300])] * len(questions)
    seconds_each = (time.monotonic() - began) / len(questions)
    return [
        AnsweredQuestion(question, [verdict], seconds_each, {f"scorer.{unit}": seconds_each})
        for question, verdict in zip(questions, verdicts, strict=True)
    ]


@cache
def reward_models() -> "RewardModels":
    # Loads torch, which a worker for rules alone never needs.
    from workers.reward_models import RewardModels

    return RewardModels()
