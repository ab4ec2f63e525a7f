"""People's labels: the aggregate of all real ratings of each reply, by the run's own rule.

Late ratings count, because nothing is trained on labels. Answers to gold items and attention checks
do not count, and neither do simulated decisions. A flagged reply has no label. Of a reply whose
dispute was settled, only the settling decision counts.
"""

from collections import defaultdict
from dataclasses import dataclass

from django.db.models.functions import Coalesce

from apps.feedback.aggregating import Vote, aggregate_votes, load_qualities
from apps.feedback.rater_model.training_data import list_learned_ratings
from apps.rollouts.models import Rollout
from apps.runs.models import Run

NEWEST = 5_000  # the most decisions, and then labels, that are read


@dataclass(frozen=True)
class Label:
    """A label. `value` is from 0 to 1; `length` is the reply's, in tokens."""

    rollout: int
    group: int
    domain: str
    length: int
    value: float


def load_newest_labels(run: Run) -> list[Label]:
    """Return the newest labels, one per rollout.

    Two statements, and two more for each form where raters are weighted.
    """
    people = run.settings.people
    votes = _votes(run)
    qualities = load_qualities(run, votes)
    of_group: dict[int, list[Vote]] = defaultdict(list)
    for vote in votes:
        of_group[vote.group].append(vote)
    # By group and rollout: a rollout of another group was only ranked among them, as an anchor.
    value_by_reply: dict[tuple[int, int], float] = {}
    for group, group_votes in of_group.items():
        _, words, flags = aggregate_votes(group_votes, people, qualities)
        value_by_reply |= {
            (group, rollout): word.value for rollout, word in words.items() if rollout not in flags
        }
    newest = sorted({rollout for _, rollout in value_by_reply}, reverse=True)[:NEWEST]
    finished = Rollout.objects.filter(
        pk__in=newest, run=run, state=Rollout.State.FINISHED
    ).without_anchors()
    rows = finished.order_by("-pk").values_list(
        "pk", "group", "group__task__domain", "completion_tokens"
    )
    return [
        Label(pk, group, domain, length, value_by_reply[group, pk])
        for pk, group, domain, length in rows
        if (group, pk) in value_by_reply
    ]


def _votes(run: Run) -> list[Vote]:
    """Return the newest decisions, oldest first."""
    ratings = list_learned_ratings(run).by_people()
    people = ratings.annotate(home=Coalesce("item__group", "rollout__group"))
    rows = people.defer("critique").order_by("-pk")[:NEWEST]
    return [Vote(rating, rating.home, settles=False) for rating in reversed(rows)]
