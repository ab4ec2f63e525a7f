"""Requests of people at the test bench: try a scorer, keep a case, check the regression set."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.db import IntegrityError, transaction

from apps.accounts.models import AuditEntry, Project, User
from apps.rewards import learned, scorers
from apps.rewards.models import RegressionCase, RegressionCheck, Trial
from apps.rewards.models.testbench import digest_case
from apps.rewards.testbench.limits import (
    CASE_TASK_BYTES,
    KIB,
    MAX_CASES,
    MAX_OPEN_TRIALS,
    TRIALS_KEPT,
)
from apps.rewards.testbench.scoring import find_scorer_version
from apps.streaming import worker_notifications


class Refused(ValueError):
    """Raised for a request that is not met; the message says why."""


@dataclass(frozen=True)
class TrialRequest:
    """What is tried: a scorer with its options, a task, and replies as scorers see them.

    `form`: the fields as they were typed, so that the page can show them again.
    """

    scorer: str
    options: Mapping[str, Any]
    task: Mapping[str, Any]
    replies: Sequence[Mapping[str, Any]]
    form: Mapping[str, str]


def queue_trial(project: Project, by: User | None, request: TrialRequest) -> Trial:
    """Queue the replies for a scorer worker. Raise Refused while too many trials wait."""
    if Trial.objects.open().filter(project=project).count() >= MAX_OPEN_TRIALS:
        raise Refused(
            f"{MAX_OPEN_TRIALS} trials of this project are waiting for a scorer; try again "
            "when one is done"
        )
    trial = Trial.create(project, by, **asdict(request))
    newest = project.trials.order_by("-pk").values_list("pk", flat=True)[:TRIALS_KEPT]
    project.trials.exclude(state__in=Trial.OPEN).exclude(pk__in=list(newest)).delete()
    return trial


def require_range(scorer: str) -> tuple[float, float]:
    """Return the least and the largest reward that the scorer gives. Raise Refused without one."""
    if learned.is_learned(scorer):
        return 0.0, 1.0
    if scorer not in scorers.scorer_names():
        raise Refused(f"scorer {scorer} no longer exists")
    definition = scorers.find_scorer(scorer)
    return definition.low, definition.high


def judges_alone(scorer: str) -> bool:
    """Tell whether the scorer judges a reply by itself, without others of its group."""
    return scorer not in scorers.scorer_names() or not scorers.find_scorer(scorer).of_group


@transaction.atomic
def keep_case(
    trial: Trial, place: int, expected: float | None, note: str, by: User | None
) -> tuple[RegressionCase, bool]:
    """Make a scored reply a case; return the case, and whether it is new.

    If the same scoring is a case already, that one gets the new expectation and note. Raises
    Refused.
    """
    _require_fit(trial, expected)
    case = RegressionCase(
        project=trial.project,
        by=by,
        scorer=trial.scorer,
        options=trial.options,
        task=trial.task,
        reply=trial.replies[place],
        form=trial.form,
        expected=expected,
        note=note,
    )
    case.digest = digest_case(case.scorer, case.options, case.task, case.reply)
    existing = trial.project.regression_cases.filter(digest=case.digest).first()
    if existing is None and trial.project.regression_cases.count() >= MAX_CASES:
        raise Refused(
            f"the project has {MAX_CASES:,} cases, which is the maximum; delete some first"
        )
    if existing:
        existing.expected = expected
        existing.note = note
        case = existing
    case.note_verdict(trial.verdicts[place])
    case.save()
    AuditEntry.record(
        "regression case changed" if existing else "regression case added",
        f"scorer {case.scorer}",
        by,
        trial.project,
        case=case.pk,
        expected=expected,
        note=note,
    )
    return case, existing is None


def _require_fit(trial: Trial, expected: float | None) -> None:
    low, high = require_range(trial.scorer)
    if expected is not None and not low <= expected <= high:
        raise Refused(
            f"expected: must be from {low:g} to {high:g}, the range of {trial.scorer}, not "
            f"{expected:g}"
        )
    if not judges_alone(trial.scorer):
        raise Refused(
            f"scorer: {trial.scorer} compares replies, so a single reply cannot be a case"
        )
    size = len(json.dumps(trial.task).encode())
    if size > CASE_TASK_BYTES:
        raise Refused(
            f"task: {size / KIB:,.0f} KiB is too large; the maximum for a case is "
            f"{CASE_TASK_BYTES // KIB} KiB"
        )


@transaction.atomic
def delete_case(case: RegressionCase, by: User | None) -> None:
    """Delete a case from the regression set; the audit log keeps what it expected."""
    AuditEntry.record(
        "regression case deleted",
        f"scorer {case.scorer}",
        by,
        case.project,
        case=case.pk,
        expected=case.expected,
        note=case.note,
    )
    case.delete()


def ask_check(project: Project, by: User | None) -> RegressionCheck:
    """Queue all cases of the project; return the open check if there is one.

    Raises Refused if there is no case.
    """
    count = project.regression_cases.count()
    if not count:
        raise Refused("there are no cases to check")
    try:
        return _new_check(project, by, count)
    except IntegrityError:  # one check at a time
        return RegressionCheck.objects.open().get(project=project)


def ask_changed() -> list[RegressionCheck]:
    """Queue the cases of each project whose scorers have another version than at the last check.

    Learned scorers are left out: their version changes with every step of a run.
    """
    versions = RegressionCase.objects.values_list("project", "scorer", "version").distinct()
    changed = {
        project
        for project, scorer, version in versions
        if not learned.is_learned(scorer) and find_scorer_version(project, scorer) != version
    }
    return [ask_check(project, None) for project in Project.objects.filter(pk__in=changed)]


@transaction.atomic
def _new_check(project: Project, by: User | None, count: int) -> RegressionCheck:
    check = RegressionCheck.objects.create(project=project, by=by, cases=count)
    AuditEntry.record("regression set checked", f"project {project.slug}", by, project, cases=count)
    transaction.on_commit(lambda: worker_notifications.notify_workers("score"), robust=True)
    return check
