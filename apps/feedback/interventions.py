"""People's interventions in a rollout in flight: permission, request and result.

A web process only requests: it writes a row and notifies. The explorer that samples the rollout
finds the row at its next turn, acts, and records the result in it. Kinds: `stop`; `edit` (the
turn's text so far as the person wants it, from which the policy continues); `seat` (the whole turn,
typed by the person); `hold` (the policy waits while somebody types) and `free` (it continues).
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from django.db import IntegrityError, connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from apps.accounts.locking import lock_first, retrying
from apps.accounts.models import AuditEntry, Membership, User
from apps.feedback.models import Demonstration, Intervention, Lesson, Preference
from apps.rollouts.models import Rollout
from apps.rollouts.turns import list_turns
from apps.runs.models import Run
from apps.streaming import worker_notifications

L = TypeVar("L", bound=Lesson)
MAX_TEXT_LENGTH = 100_000  # characters; only the explorer knows whether the tokens fit
UNHEARD_SECONDS = 120
USED_UUID = "this client_uuid was already used for another action"
# Kinds that the audit log records; holding and releasing a reply do not change it.
ON_RECORD: dict[str, str] = {
    Intervention.Kind.STOP: "rollout stopped",
    Intervention.Kind.EDIT: "rollout edited",
    Intervention.Kind.SEAT: "rollout's turn typed",
}
TYPES_TEXT = frozenset({Intervention.Kind.EDIT, Intervention.Kind.SEAT})


class CannotAct(Exception):
    """Raised for an intervention that was refused; the message says why.

    `code` is not_yours, ended, bad_text, bad_act or used_uuid.
    """

    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code = code


@dataclass(frozen=True)
class TypedSpan:
    """A part of a rollout that a person wrote, in characters and in completion tokens.

    Each range is given by its first place and the place after its last; characters are those of
    `Rollout.text`.
    """

    turn: int
    start: int
    end: int
    first_token: int
    past_token: int
    intervention: Intervention


@dataclass(frozen=True)
class Correction:
    """A whole turn that a person changed: its prompt, its new text, and the policy's text."""

    rollout_id: int
    intervention_id: int
    task_id: int | None
    prompt: list[dict]
    answer: str
    before: str


# -- permissions


def runs_steered_by(user: User, runs: Iterable[Run]) -> set[int]:
    """Return the ids of those runs in whose rollouts the person may intervene: one statement."""
    runs = list(runs)
    if user.is_superuser:
        return {run.pk for run in runs}
    roles = dict(
        Membership.objects.filter(
            user=user, project__in={run.project_id for run in runs}
        ).values_list("project", "role")
    )
    return {run.pk for run in runs if _may(roles.get(run.project_id), run)}


def _may(role: str | None, run: Run) -> bool:
    return role in Membership.MAY_STEER or (
        role in Membership.MAY_RATE and run.settings.people.steer
    )


# -- requests


@retrying
def request_intervention(
    user: User,
    rollout_id: int,
    kind: str,
    text: str,
    client_uuid: uuid.UUID,
    turn: int | None = None,
) -> Intervention:
    """Request an intervention in a rollout in flight; the same uuid again returns the same request.

    `turn` is the number of the turn in the dialogue, counted from 0 with users' turns; None is the
    current one. Raises CannotAct.
    """
    _require_act(kind, text, turn)
    with transaction.atomic():
        # The lock serialises this with the end of the rollout: it ends either after this row was
        # written, and then refuses it, or before, and then it is seen here.
        visible_rollouts = (
            Rollout.objects.visible_to(user)
            .select_related("run__project", "group")
            .filter(pk=rollout_id)
        )
        rollout = lock_first(visible_rollouts)
        if rollout is None or rollout.run_id not in runs_steered_by(user, [rollout.run]):
            raise CannotAct("not_yours", "the rollout doesn’t exist, or you can’t steer it")
        if existing := Intervention.objects.filter(by=user, client_uuid=client_uuid).first():
            return _require_same(existing, rollout_id, kind, text, turn)
        _require_streaming(rollout)
        intervention = Intervention(
            rollout=rollout, by=user, kind=kind, text=text, turn=turn, client_uuid=client_uuid
        )
        try:
            with transaction.atomic():
                intervention.save()
        except IntegrityError:  # at the same moment, for another rollout
            raise CannotAct("used_uuid", USED_UUID) from None
        if verb := ON_RECORD.get(kind):
            AuditEntry.record(
                verb, rollout.run.address, user, rollout.run.project, rollout=rollout.pk
            )
        transaction.on_commit(lambda: worker_notifications.notify_workers("explore"), robust=True)
    return intervention


def _require_act(kind: str, text: str, turn: int | None) -> None:
    if kind not in Intervention.Kind.values:
        raise CannotAct(
            "bad_act", f"unknown action {kind}; actions: {', '.join(Intervention.Kind.values)}"
        )
    if turn is not None and not 0 <= turn < 2**15:
        raise CannotAct("bad_act", "the turn doesn’t exist")
    if kind not in TYPES_TEXT:
        if text:
            raise CannotAct("bad_act", f"{kind} takes no text")
        return
    if not text.strip():
        raise CannotAct("bad_text", "the text must not be empty")
    if len(text) > MAX_TEXT_LENGTH:
        raise CannotAct(
            "bad_text", f"the text has {len(text)} characters; the maximum is {MAX_TEXT_LENGTH}"
        )
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise CannotAct(
            "bad_text",
            (
                "the text contains a character that can’t be stored (NUL or half of a surrogate"
                " pair)"
            ),
        )


def _require_same(
    existing: Intervention, rollout_id: int, kind: str, text: str, turn: int | None
) -> Intervention:
    if (existing.rollout_id, existing.kind, existing.text, existing.turn) != (
        rollout_id,
        kind,
        text,
        turn,
    ):
        raise CannotAct("used_uuid", USED_UUID)
    return existing


def _require_streaming(rollout: Rollout) -> None:
    if (
        not rollout.is_sampling
        or rollout.group.state != rollout.group.State.SAMPLING
        or not rollout.run.is_live
    ):
        raise CannotAct("ended", "this reply is already complete")


# -- the explorer's side


WAITING = "SELECT id FROM feedback_intervention WHERE state = 'pending' AND rollout_id = ANY(%s)"


def list_pending_interventions(rollout_ids: Sequence[int]) -> list[Intervention]:
    """Return the pending interventions in these rollouts, oldest first.

    Takes one statement if there are none, which is nearly always so.
    """
    with connection.cursor() as cursor:  # called many times a second, for hundreds of rollouts
        cursor.execute(WAITING, [list(rollout_ids)])
        ids = [pk for (pk,) in cursor.fetchall()]
    return (
        list(Intervention.objects.filter(pk__in=ids).select_related("by").order_by("pk"))
        if ids
        else []
    )


def mark_done(intervention: Intervention, before: str = "") -> None:
    """Mark the intervention as done; `before` is the policy's text of that turn."""
    _answer(
        Intervention.objects.filter(pk=intervention.pk),
        state=Intervention.State.DONE,
        before=before,
    )


def refuse_intervention(intervention: Intervention, reason: str) -> None:
    _answer(
        Intervention.objects.filter(pk=intervention.pk),
        state=Intervention.State.REFUSED,
        reason=reason[:300],
    )


def refuse_left(rollout_ids: Sequence[int]) -> None:
    """Refuse interventions that were not carried out before these rollouts ended.

    Call it in the transaction that ends them.
    """
    unanswered = Intervention.objects.filter(rollout__in=rollout_ids)
    _answer(unanswered, state=Intervention.State.REFUSED, reason="the reply was already complete")


def refuse_unheard(seconds: float = UNHEARD_SECONDS) -> int:
    """Refuse interventions that no explorer answered in this time; return how many.

    There may be no explorer, or the run is paused.
    """
    unanswered = Intervention.objects.filter(at__lt=Now() - timedelta(seconds=seconds))
    return _answer(
        unanswered, state=Intervention.State.REFUSED, reason="no explorer is writing this reply now"
    )


def _answer(interventions: QuerySet[Intervention], **fields: str) -> int:
    return interventions.filter(state=Intervention.State.PENDING).update(**fields, done_at=Now())


def keep_corrections(run: Run, corrections: Sequence[Correction]) -> None:
    """Save people's corrections as lessons.

    Each corrected turn is a demonstration and, where the policy had written something else, a
    preference for the correction. A repeat by the same person is the same lesson.
    """
    interventions = Intervention.objects.in_bulk(
        [correction.intervention_id for correction in corrections]
    )
    demonstrations = []
    preferences = []
    for correction in corrections:
        author = interventions[correction.intervention_id].by_id
        demonstrations.append(
            _lesson(Demonstration, run, author, correction, answer=correction.answer)
        )
        if correction.before and not correction.answer.startswith(correction.before):
            texts = {"chosen": correction.answer, "rejected": correction.before}
            preferences.append(_lesson(Preference, run, author, correction, **texts))
    Demonstration.objects.bulk_create(demonstrations, ignore_conflicts=True)
    Preference.objects.bulk_create(preferences, ignore_conflicts=True)


def _lesson(kind: type[L], run: Run, author: int, correction: Correction, **texts: str) -> L:
    source = f"correction of rollout {correction.rollout_id}"
    about = {
        "project_id": run.project_id,
        "run": run,
        "task_id": correction.task_id,
        "prompt": correction.prompt,
    }
    return kind(author_id=author, source=source, **about, **texts).keyed()


# -- earlier turns


def typed_spans(rollout: Rollout) -> list[TypedSpan]:
    """Return the parts of a finished rollout that people wrote, in order."""
    marks = [
        (number, mark) for number, turn in enumerate(list_turns(rollout)) for mark in turn.typed
    ]
    interventions = Intervention.objects.select_related("by").in_bulk(
        [mark.intervention for _, mark in marks]
    )
    return [
        TypedSpan(
            number,
            mark.start,
            mark.end,
            mark.first_token,
            mark.first_token + mark.tokens,
            interventions[mark.intervention],
        )
        for number, mark in marks
    ]
