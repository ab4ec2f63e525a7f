"""The test bench in a scorer worker: replies that people try, and cases of regression sets.

A few replies at a time, so that no run's rollouts wait long.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError

from apps.rewards import learned
from apps.rewards.models import RegressionCase, RegressionCheck, Trial
from apps.rewards.models.testbench import BenchWork
from apps.rewards.scoring import AnsweredQuestion, Question
from apps.rewards.testbench.scoring import (
    case_question,
    collect_verdicts,
    next_cases,
    next_questions,
    record_cases,
    record_check,
)
from workers.leases import renewed
from workers.scorer_dispatch import by_rule, judge_with_reward_model

log = structlog.get_logger(__name__)
REPLIES_AT_ONCE = 4
CASES_AT_ONCE = 8


def has_work() -> bool:
    """Tell whether somebody waits for a trial or a check."""
    return Trial.objects.open().exists() or RegressionCheck.objects.open().exists()


def try_replies(owner: str, say: Callable[[str], object] = str) -> bool:
    """Score the next replies of the oldest trial that is due; return whether there were any."""
    return _do_part(Trial, _judge_replies, owner, say)


def check_cases(owner: str, say: Callable[[str], object] = str) -> bool:
    """Score the next cases of the oldest check that is due; return whether there was one."""
    return _do_part(RegressionCheck, _judge_cases, owner, say)


Work = TypeVar("Work", bound=BenchWork)


def _do_part(
    model: type[Work],
    judge: Callable[[Work], bool],
    owner: str,
    say: Callable[[str], object],
) -> bool:
    """Claim work of this kind and do a part of it; an error of ours ends it with its reason.

    A database outage is raised, for the caller to wait.
    """
    work = model.objects.claim(owner, settings.LEASE_SECONDS)
    if not isinstance(work, model):  # there is none
        return False
    say(f"scoring {work}")
    try:
        with renewed(lambda: work.renew(settings.LEASE_SECONDS)):
            is_ours = judge(work)
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:  # it is stored with the work, and the worker goes on
        log.exception("test_bench_failed", work=str(work))
        work.fail(f"{type(error).__name__}: {error}")
    else:
        log.info("test_bench_scored", work=str(work), was_ours=is_ours)
    return True


def _judge_replies(trial: Trial) -> bool:
    answers = _judge_questions(trial.project_id, next_questions(trial, REPLIES_AT_ONCE))
    verdicts = collect_verdicts(trial.project_id, answers)
    return trial.add([verdicts[place] for place in sorted(verdicts)])


def _judge_cases(check: RegressionCheck) -> bool:
    cases = next_cases(check, CASES_AT_ONCE)
    return record_check(check, cases, _verdicts(check.project_id, cases))


def score_cases(cases: Sequence[RegressionCase]) -> list[RegressionCase]:
    """Score cases of one project here and now, and store the verdicts."""
    return record_cases(cases, _verdicts(cases[0].project_id, cases)) if cases else []


def _verdicts(project_id: int, cases: Sequence[RegressionCase]) -> dict[int, dict[str, Any]]:
    return collect_verdicts(
        project_id, _judge_questions(project_id, list(map(case_question, cases)))
    )


def _judge_questions(project_id: int, questions: Sequence[Question]) -> list[AnsweredQuestion]:
    """Return the questions with their verdicts, in any order."""
    rules = [question for question in questions if not learned.is_learned(question.scorer)]
    answers = by_rule(rules) if rules else []
    for question in questions:
        if learned.is_learned(question.scorer):
            answers += judge_with_reward_model(project_id, question.scorer, [question])
    return answers
