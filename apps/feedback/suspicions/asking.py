"""The sample of a suspicion put before people, ahead of all that waits, and what they said of it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from apps.accounts.locking import unit_of_work
from apps.accounts.models import User
from apps.feedback.forms import FORMS
from apps.feedback.models import FLAG, Item, Rating, Slot, Suspicion, SuspicionAct, SuspicionItem, open_slots
from apps.feedback.saying import rating_in_words
from apps.feedback.suspicions.acting import record, still_there
from apps.rollouts.models import Rollout
from apps.runs.models import NotPossible, Run
from apps.runs.people import COMPARES, WORDS_ONLY, People

FIRST = datetime(2000, 1, 1, tzinfo=UTC)  # due before anything else
ONE_BY_ONE = "thumbs"  # replies of different groups cannot be compared, and words alone cannot be counted
GOOD = 0.5  # from which value on a reply is one


@unit_of_work
def ask_people(suspicion: Suspicion, by: User) -> int:
    """Open an item for each reply of the sample; returns how many. Raises NotPossible with the reason."""
    suspicion = still_there(suspicion)
    run = suspicion.run
    if run.state in Run.ENDED:
        raise NotPossible(f"run {run.slug} is {run.get_state_display()}; nobody rates for it any more")
    if suspicion.items.exists():
        raise NotPossible("people were asked about this sample already")
    rollouts = list(Rollout.objects.filter(pk__in=suspicion.sample, run=run).order_by("pk"))
    if not rollouts:
        raise NotPossible("none of the sample's replies is kept any more")
    items = open_checks(run, rollouts)
    SuspicionItem.objects.bulk_create(SuspicionItem(suspicion=suspicion, item=item) for item in items)
    record(suspicion, SuspicionAct.Verb.ASKED, by, details={"replies": len(items), "form": items[0].form})
    return len(items)


def open_checks(run: Run, rollouts: Sequence[Rollout]) -> list[Item]:
    """Put these replies before people, one by one and ahead of all that waits; what they say makes no reward."""
    people = run.settings.people
    form = form_of(people)
    items = Item.objects.bulk_create(
        Item(run=run, group_id=reply.group_id, form=form, purpose=Item.Purpose.CHECK, members=[reply.pk], wanted=people.overlap)
        for reply in rollouts
    )
    open_slots(items, {item.group_id: FIRST for item in items})
    return items


def form_of(people: People) -> str:
    return ONE_BY_ONE if people.form in COMPARES | WORDS_ONLY else people.form


@dataclass
class Answers:
    """What people said of the sample: how many decisions found a reply good, bad or broken, and who said what, by rollout."""

    asked: int = 0
    waiting: int = 0
    good: int = 0
    bad: int = 0
    broken: int = 0
    said: dict[int, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def decisions(self) -> int:
        return self.good + self.bad + self.broken


def answers_of(suspicion: Suspicion) -> Answers:
    """Three statements."""
    found, people = Answers(asked=suspicion.items.count()), suspicion.run.settings.people
    if not found.asked:
        return found
    of_items = Rating.objects.counting().by_people()
    of_items = of_items.filter(item__suspicion_item__suspicion=suspicion)
    for rating in of_items.select_related("rater").order_by("pk"):
        [rollout] = rating.members
        found.said[rollout].append((str(rating.rater), rating_in_words(rating)))
        value = None if rating.form == FLAG else FORMS[rating.form].values(rating.answer, rating.members, people).get(rollout)
        found.broken += value is None
        found.good += value is not None and value >= GOOD
        found.bad += value is not None and value < GOOD
    waiting = Slot.objects.filter(item__suspicion_item__suspicion=suspicion, state__in=[Slot.State.OPEN, Slot.State.HELD])
    found.waiting = waiting.count()
    return found
