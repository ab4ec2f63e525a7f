"""Priority items about a suspicion's sample, and people's answers."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from apps.accounts.locking import unit_of_work
from apps.accounts.models import User
from apps.feedback.answer_texts import rating_in_words
from apps.feedback.forms import FORMS
from apps.feedback.models import (
    FLAG,
    Item,
    Rating,
    Slot,
    Suspicion,
    SuspicionAction,
    SuspicionItem,
    open_slots,
)
from apps.feedback.suspicions.acting import record_response, still_there
from apps.rollouts.models import Rollout
from apps.runs.models import NotPossible, Run
from apps.runs.people import COMPARES, WORDS_ONLY, People

FIRST = datetime(2000, 1, 1, tzinfo=UTC)  # due before anything else
# Form of such items if the run's own compares replies or asks for text: replies of different groups
# cannot be compared, and texts cannot be counted.
ONE_BY_ONE = "thumbs"
GOOD = 0.5  # the least value of a good reply


@unit_of_work
def ask_people(suspicion: Suspicion, by: User) -> int:
    """Open an item for each reply of the sample; return how many.

    Raises NotPossible with the reason.
    """
    suspicion = still_there(suspicion)
    run = suspicion.run
    if run.state in Run.ENDED:
        raise NotPossible(f"run {run.slug} is {run.get_state_display()}; it takes no more ratings")
    if suspicion.items.exists():
        raise NotPossible("this sample was already sent to raters")
    rollouts = list(Rollout.objects.filter(pk__in=suspicion.sample, run=run).order_by("pk"))
    if not rollouts:
        raise NotPossible("no replies of the sample are stored any more")
    items = open_checks(run, rollouts)
    SuspicionItem.objects.bulk_create(
        SuspicionItem(suspicion=suspicion, item=item) for item in items
    )
    record_response(
        suspicion,
        SuspicionAction.Verb.ASKED,
        by,
        details={"replies": len(items), "form": items[0].form},
    )
    return len(items)


def open_checks(run: Run, rollouts: Sequence[Rollout]) -> list[Item]:
    """Open an item for each of these replies, ahead of all others that wait.

    The answers make no reward.
    """
    people = run.settings.people
    form = choose_suspicion_form(people)
    items = Item.objects.bulk_create(
        Item(
            run=run,
            group_id=reply.group_id,
            form=form,
            purpose=Item.Purpose.CHECK,
            members=[reply.pk],
            overlap=people.overlap,
        )
        for reply in rollouts
    )
    open_slots(items, {item.group_id: FIRST for item in items})
    return items


def choose_suspicion_form(people: People) -> str:
    return ONE_BY_ONE if people.form in COMPARES | WORDS_ONLY else people.form


@dataclass
class Answers:
    """People's answers about the sample: the number of good, bad and broken ones, and details."""

    items: int = 0
    waiting: int = 0
    good: int = 0
    bad: int = 0
    broken: int = 0
    by_rollout: dict[int, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def decisions(self) -> int:
        return self.good + self.bad + self.broken


def load_sample_answers(suspicion: Suspicion) -> Answers:
    """Return people's answers about the sample; three statements."""
    answers = Answers(items=suspicion.items.count())
    people = suspicion.run.settings.people
    if not answers.items:
        return answers
    of_items = Rating.objects.counting().by_people()
    of_items = of_items.filter(item__suspicion_item__suspicion=suspicion)
    for rating in of_items.select_related("rater").order_by("pk"):
        [rollout] = rating.members
        answers.by_rollout[rollout].append((str(rating.rater), rating_in_words(rating)))
        value = (
            None
            if rating.form == FLAG
            else FORMS[rating.form].values(rating.answer, rating.members, people).get(rollout)
        )
        answers.broken += value is None
        answers.good += value is not None and value >= GOOD
        answers.bad += value is not None and value < GOOD
    waiting = Slot.objects.filter(
        item__suspicion_item__suspicion=suspicion, state__in=[Slot.State.OPEN, Slot.State.HELD]
    )
    answers.waiting = waiting.count()
    return answers
