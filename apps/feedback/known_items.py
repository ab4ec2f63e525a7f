"""Items with a known answer: create them from the run's replies, give them to raters, retire them.

Gold items and attention checks are mixed in among the others. A gold item needs judgement; an
attention check has an answer that every reader sees. Norming items come before all others, and each
is explained after its rating.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from apps.accounts.locking import lock_ids, unit_of_work
from apps.accounts.models import AuditEntry, User
from apps.feedback.forms import FORMS, Answer, BadAnswer
from apps.feedback.forms.words import words
from apps.feedback.known_answers import is_met
from apps.feedback.models import ANSWERED, NORMING, Item, Rating
from apps.feedback.rewrite_lessons import policy_turns
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.runs.people import WORDS_ONLY

MAX_EXPLANATION_LENGTH = 2_000


@dataclass(frozen=True)
class AnsweredItem:
    """A known item, with the number of its answers and of right ones."""

    item: Item
    answers: int
    met: int

    @property
    def share(self) -> float | None:
        return self.met / self.answers if self.answers else None


def candidates(run: Run, rollouts: Sequence[int]) -> list[Rollout]:
    """Return these rollouts in their canonical order, for a known item.

    Raises BadAnswer unless all are finished replies of one group.
    """
    replies = list(
        Rollout.objects.filter(
            run=run, pk__in=rollouts, state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY
        )
        .select_related("group__task", "payload")
        .order_by("pk")
    )
    if not rollouts or len(replies) < len(set(rollouts)):
        raise BadAnswer({"rollouts": "must be finished replies of this run"})
    if len({rollout.group_id for rollout in replies}) > 1:
        raise BadAnswer({"rollouts": "must be replies of one group"})
    return replies


def expect(run: Run, rollouts: Sequence[Rollout], raw: object) -> Answer:
    """Return the right answer in canonical form, by the run's form. Raises BadAnswer."""
    people = run.settings.people
    form = FORMS[people.form]
    if people.form in WORDS_ONLY:
        raise BadAnswer({"answer": (f"{form.name} gives no number, so it has no correct answer")})
    if not form.min_rollouts <= len(rollouts) <= form.max_rollouts:
        raise BadAnswer(
            {
                "rollouts": (
                    f"{form.name} needs {form.min_rollouts} to {form.max_rollouts} replies,"
                    f" not {len(rollouts)}"
                )
            }
        )
    turns = policy_turns(rollouts[0]) if people.form == "turns" else None
    return form.parse(raw, [rollout.pk for rollout in rollouts], people, turns=turns)


@unit_of_work
def create_known_item(
    run: Run, rollouts: Sequence[Rollout], purpose: str, raw: object, explanation: object, by: User
) -> Item:
    """Create a known item of these replies, in the run's current form. Raises BadAnswer."""
    problems: dict[str, str] = {}
    if purpose not in ANSWERED:
        problems["purpose"] = "must be gold, attention or norming"
    why = words(explanation, "explanation", problems, max_length=MAX_EXPLANATION_LENGTH)
    if purpose == NORMING and not why and "explanation" not in problems:
        problems["explanation"] = "say why this rating is correct: raters read it after theirs"
    try:
        expected = expect(run, rollouts, raw)
    except BadAnswer as bad:
        problems |= bad.problems
    if problems:
        raise BadAnswer(problems)
    item = Item.objects.create(
        run=run,
        group_id=rollouts[0].group_id,
        form=run.settings.people.form,
        purpose=purpose,
        members=[rollout.pk for rollout in rollouts],
        expected=expected,
        explanation=why,
    )
    # Without the item: raters may follow the run's events.
    run.topic.record("gold_made", by=str(by))
    AuditEntry.record("gold made", run.address, by, run.project, purpose=purpose)
    return item


@unit_of_work
def retire_known_item(item: Item, by: User) -> bool:
    """Stop asking the item; its answers stay. Returns whether it was active until now."""
    lock_ids(item.slots.filter(state="open"))
    was_open = Item.objects.filter(pk=item.pk, state=Item.State.OPEN).update(
        state=Item.State.CLOSED
    )
    if was_open:
        item.slots.filter(state="open").update(state="closed")
        item.run.topic.record("gold_retired", by=str(by))
        AuditEntry.record(
            "gold retired", item.run.address, by, item.run.project, purpose=item.purpose
        )
    return bool(was_open)


def known_items(run: Run) -> QuerySet[Item]:
    """Return the run's known items, active ones first, newest first."""
    return Item.objects.filter(run=run, purpose__in=ANSWERED).order_by("-state", "-pk")


def count_known_answers(run: Run, items: Sequence[Item]) -> list[AnsweredItem]:
    """Return the items with their answers counted: one query, whatever their number."""
    ratings: Mapping[int, list[Rating]] = {item.pk: [] for item in items}
    answers = Rating.objects.counting().by_people().filter(item__in=ratings)
    for rating in answers.only("item_id", "answer", "shown", "form"):
        ratings[rating.item_id].append(rating)
    people = run.settings.people
    return [
        AnsweredItem(
            item,
            len(ratings[item.pk]),
            sum(is_met(item, rating, people) for rating in ratings[item.pk]),
        )
        for item in items
    ]
