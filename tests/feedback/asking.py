"""Groups that wait for people, created as the scorer creates them."""

import uuid
from collections.abc import Sequence

from django.db import transaction

from apps.feedback.claiming import HeldItem
from apps.feedback.item_opening import open_items
from apps.feedback.ratings.items import Submission
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.models import Group
from apps.runs.models import Run


def ask(
    run: Run, finish, texts: Sequence[str] = ("one", "two"), groups: int = 1, value: float = 0.0
) -> list[Group]:
    """Sample and score groups of the run, and open them for rating."""
    finish(run, list(texts), groups=groups)
    claimed = Group.objects.claim(Group.State.SCORING, "scorer", 60, 100, run)
    with transaction.atomic():
        open_items(
            record_verdicts(
                claimed,
                [AnsweredQuestion(q, [Verdict(value, "test")]) for q in open_questions(claimed)],
            )
        )
    return [Group.objects.get(pk=group.pk) for group in claimed]


def answer_to(held: HeldItem, answer: dict, **changes: object) -> Submission:
    """Return what a browser sends about a claimed item."""
    said = {
        "client_uuid": uuid.uuid4(),
        "fence": held.fence,
        "version": held.version,
        "form": held.form,
        "answer": answer,
    }
    return Submission(**{**said, **changes})
