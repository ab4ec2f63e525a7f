"""What people may do to a rollout while it is being written: who may, asking for it, and what became of it.

A web process only asks: it writes a row and rings. The explorer that writes the rollout finds the row at its next turn,
acts, and answers in it. Kinds: `stop`; `edit` (the turn's text so far as the person wants it, from which the policy goes on);
`seat` (the turn as a whole, typed by the person); `hold` (the policy waits while somebody types) and `free` (it goes on).
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from apps.accounts.locking import lock_first, retrying
from apps.accounts.models import AuditEntry, Membership, User
from apps.feedback.models import Demonstration, Intervention, Lesson, Preference
from apps.rollouts.models import Rollout
from apps.rollouts.turns import turns_of
from apps.runs.models import Run
from apps.streaming import bells

LONGEST = 100_000  # characters; what fits the answer's tokens only the explorer can say
UNHEARD_SECONDS = 120
# Holding an answer and letting it go on change nothing of it.
ON_RECORD = {
    Intervention.Kind.STOP: "rollout stopped", Intervention.Kind.EDIT: "rollout edited",
    Intervention.Kind.SEAT: "rollout's turn typed",
}  # fmt: skip
TYPES_TEXT = frozenset({Intervention.Kind.EDIT, Intervention.Kind.SEAT})


class CannotAct(Exception):
    """The act was not taken; the message says why. `code`: not_yours, ended, bad_text, bad_act or used_uuid."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code = code


@dataclass(frozen=True)
class TypedSpan:
    """Text of a rollout that a person wrote: characters of `Rollout.text`, and completion tokens; both first and one past last."""

    turn: int
    start: int
    end: int
    first_token: int
    past_token: int
    act: Intervention


@dataclass(frozen=True)
class Correction:
    """A whole turn that a person had a hand in: what it answered, how it reads now, and what the policy had said."""

    rollout_id: int
    act_id: int
    task_id: int | None
    prompt: list[dict]
    answer: str
    before: str


# -- who may ----------------------------------------------------------------------------------------------------------


def runs_steered_by(user: User, runs: Iterable[Run]) -> set[int]:
    """Ids of those runs whose rollouts the person may stop, edit and type: one statement however many runs there are."""
    runs = list(runs)
    if user.is_superuser:
        return {run.pk for run in runs}
    roles = dict(Membership.objects.filter(user=user, project__in={run.project_id for run in runs}).values_list("project", "role"))
    return {run.pk for run in runs if _may(roles.get(run.project_id), run)}


def _may(role: str | None, run: Run) -> bool:
    return role in Membership.MAY_STEER or (role in Membership.MAY_RATE and run.settings.people.steer)


# -- asking -----------------------------------------------------------------------------------------------------------


@retrying
def ask(user: User, rollout_id: int, kind: str, text: str, client_uuid: uuid.UUID, turn: int | None = None) -> Intervention:
    """Ask for an act on a rollout that is being written; the same uuid again is the same act.

    `turn`: which turn of the dialogue, users' counted too, from 0; None is the one under way. Raises CannotAct.
    """
    _require_act(kind, text, turn)
    with transaction.atomic():
        # Locked: a rollout ends after this act was written, and then refuses it, or before, and then we see so.
        rollout = Rollout.objects.visible_to(user).select_related("run__project", "group").filter(pk=rollout_id)
        rollout = lock_first(rollout)
        if rollout is None or rollout.run_id not in runs_steered_by(user, [rollout.run]):
            raise CannotAct("not_yours", "there is no such answer that you may steer")
        if known := Intervention.objects.filter(by=user, client_uuid=client_uuid).first():
            return _same(known, rollout_id, kind, text, turn)
        _require_streaming(rollout)
        act = Intervention.objects.create(rollout=rollout, by=user, kind=kind, text=text, turn=turn, client_uuid=client_uuid)
        if verb := ON_RECORD.get(kind):
            AuditEntry.record(verb, rollout.run.address, user, rollout.run.project, rollout=rollout.pk)
        transaction.on_commit(lambda: bells.ring("explore"), robust=True)
    return act


def _require_act(kind: str, text: str, turn: int | None) -> None:
    if kind not in Intervention.Kind.values:
        raise CannotAct("bad_act", f"no such act: {kind}; there are {', '.join(Intervention.Kind.values)}")
    if turn is not None and not 0 <= turn < 2**15:
        raise CannotAct("bad_act", "no such turn")
    if kind not in TYPES_TEXT:
        if text:
            raise CannotAct("bad_act", f"{kind} takes no text")
        return
    if not text.strip():
        raise CannotAct("bad_text", "write something first")
    if len(text) > LONGEST:
        raise CannotAct("bad_text", f"the text has {len(text)} characters; at most {LONGEST} are taken")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise CannotAct("bad_text", "the text has a character that cannot be kept (NUL, or half of a pair)")


def _same(known: Intervention, rollout_id: int, kind: str, text: str, turn: int | None) -> Intervention:
    if (known.rollout_id, known.kind, known.text, known.turn) != (rollout_id, kind, text, turn):
        raise CannotAct("used_uuid", "this client_uuid was used for another act")
    return known


def _require_streaming(rollout: Rollout) -> None:
    if not rollout.is_sampling or rollout.group.state != rollout.group.State.SAMPLING or not rollout.run.is_live:
        raise CannotAct("ended", "this answer is not being written any more")


# -- the explorer's side ----------------------------------------------------------------------------------------------


WAITING = "SELECT id FROM feedback_intervention WHERE state = 'asked' AND rollout_id = ANY(%s)"


def asked_of(rollout_ids: Sequence[int]) -> list[Intervention]:
    """Acts that wait to be done to these rollouts, oldest first: one statement where there is none, as nearly always."""
    with connection.cursor() as cursor:  # asked many times a second, for hundreds of rollouts
        cursor.execute(WAITING, [list(rollout_ids)])
        found = [pk for (pk,) in cursor.fetchall()]
    return list(Intervention.objects.filter(pk__in=found).select_related("by").order_by("pk")) if found else []


def mark_done(act: Intervention, before: str = "") -> None:
    """The act was done; `before`: what the policy had said of that turn."""
    _answer(Intervention.objects.filter(pk=act.pk), state=Intervention.State.DONE, before=before)


def refuse(act: Intervention, reason: str) -> None:
    _answer(Intervention.objects.filter(pk=act.pk), state=Intervention.State.REFUSED, reason=reason[:300])


def refuse_left(rollout_ids: Sequence[int]) -> None:
    """Acts nobody came to do before these rollouts ended; call it in the transaction that ends them."""
    left = Intervention.objects.filter(rollout__in=rollout_ids)
    _answer(left, state=Intervention.State.REFUSED, reason="the answer had ended before")


def refuse_unheard(seconds: float = UNHEARD_SECONDS) -> int:
    """Acts that no explorer answered in this time, because there is none or the run stands still. Returns how many."""
    left = Intervention.objects.filter(at__lt=Now() - timedelta(seconds=seconds))
    return _answer(left, state=Intervention.State.REFUSED, reason="nothing is writing this answer just now")


def _answer(acts: QuerySet[Intervention], **fields: str) -> int:
    return acts.filter(state=Intervention.State.ASKED).update(**fields, done_at=Now())


def keep_corrections(run: Run, corrections: Sequence[Correction]) -> None:
    """What people wrote as lessons: a demonstration of each whole corrected turn, and where the policy had said something
    else, that the correction is better. Said again by the same person, it is the same lesson.
    """
    acts = Intervention.objects.in_bulk([correction.act_id for correction in corrections])
    demonstrations, preferences = [], []
    for correction in corrections:
        author = acts[correction.act_id].by_id
        demonstrations.append(_lesson(Demonstration, run, author, correction, answer=correction.answer))
        if correction.before and not correction.answer.startswith(correction.before):
            texts = {"chosen": correction.answer, "rejected": correction.before}
            preferences.append(_lesson(Preference, run, author, correction, **texts))
    Demonstration.objects.bulk_create(demonstrations, ignore_conflicts=True)
    Preference.objects.bulk_create(preferences, ignore_conflicts=True)


def _lesson(kind: type[Lesson], run: Run, author: int, correction: Correction, **texts: str) -> Lesson:
    source = f"correction of rollout {correction.rollout_id}"
    about = {"project_id": run.project_id, "run": run, "task_id": correction.task_id, "prompt": correction.prompt}
    return kind(author_id=author, source=source, **about, **texts).keyed()


# -- looking back -----------------------------------------------------------------------------------------------------


def typed_spans(rollout: Rollout) -> list[TypedSpan]:
    """Which of an ended rollout's text people wrote, in order; empty for one the policy wrote alone."""
    marks = [(number, mark) for number, turn in enumerate(turns_of(rollout)) for mark in turn.typed]
    acts = Intervention.objects.select_related("by").in_bulk([mark.act for _, mark in marks])
    return [
        TypedSpan(number, mark.start, mark.end, mark.first_token, mark.first_token + mark.tokens, acts[mark.act])
        for number, mark in marks
    ]
