"""People's labels: what they together say of a reply, by the run's own rule, of everything honest that they stand by.

Late words count, for nothing is trained on labels. Answers to gold items and attention checks are none, flagged replies have none,
and of a reply whose dispute was settled only the word that settled it counts. Simulated decisions are not labels.
"""

from collections import defaultdict
from dataclasses import dataclass

from django.db.models.functions import Coalesce

from apps.feedback.aggregating import Vote, qualities_of, words_of
from apps.feedback.rater_model.heard import heard
from apps.rollouts.models import Rollout
from apps.runs.models import Run

NEWEST = 5_000  # decisions, and then labels, that are looked at


@dataclass(frozen=True)
class Label:
    """`value`: 0 to 1. `length`: of the reply, in tokens."""

    rollout: int
    group: int
    domain: str
    length: int
    value: float


def labels_of(run: Run) -> list[Label]:
    """The newest, by rollout; two statements, and two more for each form where raters are weighed."""
    people, votes = run.settings.people, _votes(run)
    qualities = qualities_of(run, votes)
    of_group: dict[int, list[Vote]] = defaultdict(list)
    for vote in votes:
        of_group[vote.group].append(vote)
    found: dict[tuple[int, int], float] = {}  # by group and rollout: one of another group was only ranked among them
    for group, own in of_group.items():
        _, words, flags = words_of(own, people, qualities)
        found |= {(group, rollout): word.value for rollout, word in words.items() if rollout not in flags}
    newest = sorted({rollout for _, rollout in found}, reverse=True)[:NEWEST]
    finished = Rollout.objects.filter(pk__in=newest, run=run, state=Rollout.State.FINISHED).without_anchors()
    rows = finished.order_by("-pk").values_list("pk", "group", "group__task__domain", "completion_tokens")
    return [
        Label(pk, group, domain, length, found[group, pk])
        for pk, group, domain, length in rows
        if (group, pk) in found
    ]


def _votes(run: Run) -> list[Vote]:
    """The newest decisions, in the order they came."""
    people = heard(run).by_people()
    people = people.annotate(home=Coalesce("item__group", "rollout__group"))
    rows = people.defer("critique").order_by("-pk")[:NEWEST]
    return [Vote(rating, rating.home, settles=False) for rating in reversed(rows)]
