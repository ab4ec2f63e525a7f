"""Runs that ask raters by a given form, with readable replies, and the items on the rating page."""

from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction

from apps.feedback.item_opening import open_items
from apps.feedback.models import Rating, Slot
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.models import Group, Outcome, Rollout
from apps.rollouts.turns import Turn
from apps.runs.models import Run
from apps.runs.parsing import parse_config
from tests.conftest import tokens_of
from tests.seeding import _stage

PARCEL = (
    (
        "I am sorry to hear that. I will trace your parcel now and write to you before noon with"
        " its place and a new date."
    ),
    "Not our fault. Wait for it.",
    (
        "I am very sorry about the late parcel. Order 4431 left us on Monday; I have asked the"
        " carrier and will call you today."
    ),
    (
        "Thank you for your message. Your parcel is being looked for.\n\n- carrier: asked\n"
        "- refund: `12.40` if it is not there by **Friday**"
    ),
)
DIALOGUE = (
    ("assistant", "Is it more than 50?"),
    ("user", "No."),
    ("assistant", "Is it more than 80?"),
    ("user", "No, I said not more than 50."),
    ("assistant", "Then it is 25."),
)
RUBRIC = (
    {"name": "polite", "description": "Does it sound as one would wish to be spoken to?"},
    {"name": "right", "low": 0, "high": 3, "description": "Are its facts those of the order?"},
    {"name": "leaning", "low": -2, "high": 2, "description": "Too cold or too warm?"},
)


@dataclass
class Asking:
    """A run that asks raters, and its cast."""

    run: Run
    people: dict[str, Any]

    @property
    def bob(self) -> Any:
        return self.people["bob"]

    def ratings(self, **which: object) -> list[Rating]:
        return list(Rating.objects.filter(rater=self.bob, **which).order_by("pk"))


def asking(
    form: str,
    groups: int = 4,
    size: int = 4,
    texts: tuple[str, ...] = PARCEL,
    slug: str = "tone-7",
    **people: object,
) -> Asking:
    """Create a running run whose groups all wait for ratings by this form."""
    project, cast = _stage("", 40, None)
    asked = {"form": form, "per_group": size, "deadline_s": 3600, **people}
    if form == "rubric":
        asked["rubric"] = list(RUBRIC)
    plan = parse_config(
        {
            "policy": "tone",
            "taskset": "tone",
            "steps": 200,
            "group_size": size,
            "groups_per_step": 2,
            "max_staleness": 10,
            "rewards": [{"scorer": "tone"}],
            "people": asked,
        }
    )
    run = Run.create(
        project=project, slug=slug, title="Polite replies", plan=plan, owner=cast["alice"]
    )
    run.start(by=cast["alice"])
    opened = Group.open(run, "explorer", 60, groups, run.published_version)
    rollouts = Rollout.objects.filter(group__in=opened).order_by("pk")
    Group.finish_rollouts(
        {g.pk: g.claimed for g in opened},
        [_outcome(r, form, texts[n % len(texts)]) for n, r in enumerate(rollouts)],
    )
    claimed = Group.objects.claim(Group.State.SCORING, "scorer", 60, 100, run)
    with transaction.atomic():
        open_items(
            record_verdicts(
                claimed,
                [AnsweredQuestion(q, [Verdict(0.5, "test")]) for q in open_questions(claimed)],
            )
        )
    run.refresh_from_db()
    return Asking(run, cast)


def _outcome(rollout: Rollout, form: str, text: str) -> Outcome:
    if form != "turns":
        return Outcome(rollout.pk, tokens_of(text), text, "stop")
    parts = []
    turns = []
    start = 0
    first = 0
    for role, said in DIALOGUE:
        turns.append(Turn(role, said, start, first, len(said)))
        parts.append(said)
        start += len(said) + 2
        first += len(said)
    whole = "\n\n".join(parts)
    mask = tuple(int(role == "assistant") for role, said in DIALOGUE for _ in said)
    return Outcome(
        rollout.pk,
        replace(tokens_of("".join(parts)), action_mask=mask),
        whole,
        "stop",
        turns=tuple(turns),
    )


def close_held() -> None:
    """Close the slots that a closed window still holds: a rater can hold only three at a time.

    A window that is closed at once does not always release them.
    """
    Slot.objects.filter(state=Slot.State.HELD).update(state=Slot.State.CLOSED)
