"""Scoring for the test bench: questions to the scorers, and verdicts as they are stored."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.models.functions import Now

from apps.accounts.locking import lock_first, lock_rows, unit_of_work
from apps.rewards import learned, scorers
from apps.rewards.models import RegressionCase, RegressionCheck, Trial
from apps.rewards.models.testbench import VERDICT_FIELDS
from apps.rewards.scorers import RolloutView, TaskView
from apps.rewards.scoring import AnsweredQuestion, Question, judges_groups

NO_REASON = "no reason given"
REASON_LENGTH = 300


def build_question(
    places: Sequence[int],
    scorer: str,
    options: Mapping[str, Any],
    task: Mapping[str, Any],
    replies: Iterable[Mapping[str, Any]],
) -> Question:
    """Return one question about these replies; `places` stand for the ids of rollouts."""
    views = tuple(RolloutView(**reply) for reply in replies)
    return Question(0, scorer, tuple(places), views, TaskView(**task), options)


def next_questions(trial: Trial, at_once: int) -> list[Question]:
    """Return the questions about the trial's next replies.

    A scorer that compares replies is asked about all of them together.
    """
    first = len(trial.verdicts)
    scoring_key = (trial.scorer, trial.options, trial.task)
    if judges_groups(trial.scorer):
        return [build_question(range(len(trial.replies)), *scoring_key, trial.replies)]
    places = range(first, min(first + at_once, len(trial.replies)))
    return [build_question([place], *scoring_key, [trial.replies[place]]) for place in places]


def case_question(case: RegressionCase) -> Question:
    return build_question([case.pk], case.scorer, case.options, case.task, [case.reply])


def collect_verdicts(
    project_id: int, answers: Iterable[AnsweredQuestion]
) -> dict[int, dict[str, Any]]:
    """Return the verdicts as they are stored, by place."""
    verdicts_by_place = {}
    for answer in answers:
        version = find_scorer_version(project_id, answer.question.scorer)
        for place, verdict in zip(answer.question.rollout_ids, answer.verdicts, strict=True):
            verdicts_by_place[place] = {
                "value": verdict.value,
                "reason": (verdict.reason or NO_REASON)[:REASON_LENGTH],
                "details": verdict.details,
                "version": version,
                "seconds": answer.seconds,
            }
    return verdicts_by_place


def find_scorer_version(project_id: int, scorer: str) -> int | None:
    """Return the scorer's version today; of a learned one, its weight version.

    None if there is no such scorer any more.
    """
    if scorer in scorers.scorer_names():
        return scorers.find_scorer(scorer).version
    try:
        return (
            learned.find_reward_model(project_id, scorer).version
            if learned.is_learned(scorer)
            else None
        )
    except LookupError:
        return None


def next_cases(check: RegressionCheck, at_once: int) -> list[RegressionCase]:
    """Return the next cases that this check has not scored."""
    remaining = RegressionCase.objects.filter(project=check.project_id).exclude(checked_in=check)
    return list(remaining.order_by("pk")[:at_once])


@unit_of_work
def record_check(
    check: RegressionCheck, cases: Sequence[RegressionCase], verdicts: Mapping[int, Mapping]
) -> bool:
    """Store verdicts on cases; without cases the check is done.

    Returns whether the check was still ours; nothing is stored otherwise.
    """
    if lock_first(check.held()) is None:
        return False
    stored = _store(cases, verdicts, checked_in=check)
    differ = sum(not case.holds for case in stored)
    return check.add(len(stored), differ, is_done=not cases)


@unit_of_work
def record_cases(
    cases: Sequence[RegressionCase], verdicts: Mapping[int, Mapping]
) -> list[RegressionCase]:
    """Store verdicts on cases outside of a check; return those that still exist."""
    return _store(cases, verdicts)


def _store(
    cases: Sequence[RegressionCase], verdicts: Mapping[int, Mapping], **fields: object
) -> list[RegressionCase]:
    locked_cases = lock_rows(RegressionCase.objects.filter(pk__in=[case.pk for case in cases]))
    for case in locked_cases:
        case.note_verdict(verdicts[case.pk])
        case.checked_at = Now()
        for name, value in fields.items():
            setattr(case, name, value)
    RegressionCase.objects.bulk_update(locked_cases, [*VERDICT_FIELDS, *fields])
    return locked_cases
