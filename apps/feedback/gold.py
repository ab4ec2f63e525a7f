"""Items whose right answer is known: made from replies the run has, mixed in among the others, retired.

A gold item asks for judgement; an attention check has an answer that nobody who reads can miss.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from apps.accounts.locking import lock_ids, unit_of_work
from apps.accounts.models import AuditEntry, User
from apps.feedback.forms import FORMS, Answer, BadAnswer
from apps.feedback.forms.words import words
from apps.feedback.known_answers import is_met
from apps.feedback.models import KNOWN, Item, Rating
from apps.feedback.teaching import policy_turns
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.runs.people import WORDS_ONLY

LONGEST_EXPLANATION = 2_000


@dataclass(frozen=True)
class Answered:
    """A known item and how it was answered."""

    item: Item
    answers: int
    met: int

    @property
    def share(self) -> float | None:
        return self.met / self.answers if self.answers else None


def candidates(run: Run, rollouts: Sequence[int]) -> list[Rollout]:
    """These rollouts in their canonical order, for a known item. Raises BadAnswer unless all are written replies of one group."""
    found = list(
        Rollout.objects.filter(run=run, pk__in=rollouts, state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY)
        .select_related("group__task", "payload").order_by("pk")
    )  # fmt: skip
    if not rollouts or len(found) < len(set(rollouts)):
        raise BadAnswer({"rollouts": "must be replies of this run that are written to their end"})
    if len({rollout.group_id for rollout in found}) > 1:
        raise BadAnswer({"rollouts": "must be replies to one message: an item is about one group"})
    return found


def expect(run: Run, rollouts: Sequence[Rollout], raw: object) -> Answer:
    """The right answer in its canonical spelling, in the run's form. Raises BadAnswer."""
    people = run.settings.people
    form = FORMS[people.form]
    if people.form in WORDS_ONLY:
        raise BadAnswer({"answer": f"the form {form.name} gives no number, so no answer to it is right or wrong"})
    if not form.fewest <= len(rollouts) <= form.most:
        raise BadAnswer({"rollouts": f"the form {form.name} looks at {form.fewest} to {form.most} replies, not at {len(rollouts)}"})
    counted = {"turns": policy_turns(rollouts[0])} if people.form == "turns" else {}
    return form.parse(raw, [rollout.pk for rollout in rollouts], people, **counted)


@unit_of_work
def make(run: Run, rollouts: Sequence[Rollout], purpose: str, raw: object, explanation: str, by: User) -> Item:
    """A known item over these replies, in the run's form of now. Raises BadAnswer."""
    problems: dict[str, str] = {}
    if purpose not in KNOWN:
        problems["purpose"] = "must be gold or attention"
    explanation = words(explanation, "explanation", problems, longest=LONGEST_EXPLANATION)
    try:
        expected = expect(run, rollouts, raw)
    except BadAnswer as bad:
        problems |= bad.problems
    if problems:
        raise BadAnswer(problems)
    item = Item.objects.create(
        run=run, group_id=rollouts[0].group_id, form=run.settings.people.form, purpose=purpose,
        members=[rollout.pk for rollout in rollouts], expected=expected, explanation=explanation,
    )  # fmt: skip
    run.topic.record("gold_made", by=str(by))  # not which: raters may follow the run's events
    AuditEntry.record("gold made", run.address, by, run.project, purpose=purpose)
    return item


@unit_of_work
def retire(item: Item, by: User) -> bool:
    """Ask nobody any more; what was answered stays. Returns whether it was asked until now."""
    lock_ids(item.slots.filter(state="open"))
    was_open = Item.objects.filter(pk=item.pk, state=Item.State.OPEN).update(state=Item.State.CLOSED)
    if was_open:
        item.slots.filter(state="open").update(state="closed")
        item.run.topic.record("gold_retired", by=str(by))
        AuditEntry.record("gold retired", item.run.address, by, item.run.project, purpose=item.purpose)
    return bool(was_open)


def known_items(run: Run) -> QuerySet[Item]:
    """The run's known items, those still asked first, the newest first."""
    return Item.objects.filter(run=run, purpose__in=KNOWN).order_by("-state", "-pk")


def answered(run: Run, items: Sequence[Item]) -> list[Answered]:
    """How these items were answered: one query, whatever their number."""
    said: Mapping[int, list[Rating]] = {item.pk: [] for item in items}
    answers = Rating.objects.counting().by_people().filter(item__in=said)
    for rating in answers.only("item_id", "answer", "shown", "form"):
        said[rating.item_id].append(rating)
    people = run.settings.people
    return [Answered(item, len(said[item.pk]), sum(is_met(item, rating, people) for rating in said[item.pk])) for item in items]
