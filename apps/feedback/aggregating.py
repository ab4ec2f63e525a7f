"""Aggregate several people's votes about a judged group to one reward per rollout.

Rewards are written once, when the group is refined. A later rating is kept, is shown as late, and
changes nothing.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection
from django.db.models import Exists, OuterRef

from apps.feedback.forms import FORMS
from apps.feedback.models import ASIDE, FLAG, Adjudication, Rating
from apps.feedback.rater_quality import load_quality
from apps.feedback.rules import RULES, AggregateValue, DecidedValues, Qualities
from apps.rewards.combining import PEOPLE
from apps.rewards.models import ALL_SIMULATED, SIMULATED, Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from apps.runs.people import People


@dataclass(frozen=True)
class Vote:
    """A rating with the group it is about, and whether it settled its item's dispute."""

    rating: Rating
    group: int
    settles: bool


def write_people_rewards(groups: Sequence[Group]) -> None:
    """Write people's reward (source human, scorer `people`, no author) for every rated rollout.

    A rollout that somebody flagged as broken gets NULL with the reason: it is not learned from. The
    number of statements is fixed, however many groups; the rule `weighted` takes two more per run
    and form.
    """
    group_ids = [group.pk for group in groups]
    if not _is_any_rated(group_ids):
        return
    homes = dict(Rollout.objects.filter(group__in=group_ids).values_list("pk", "group_id"))
    votes = _votes(homes)
    if not votes:
        return
    rewards = []
    for run in {group.run_id: group.run for group in groups}.values():
        run_group_ids = {group.pk for group in groups if group.run_id == run.pk}
        rewards += _aggregate_run(
            run, [vote for vote in votes if vote.group in run_group_ids], homes
        )
    Reward.objects.bulk_create(rewards, ignore_conflicts=True)


RATED = """
    SELECT EXISTS (SELECT 1 FROM feedback_rating JOIN feedback_item i ON i.id = item_id
            WHERE i.group_id = ANY(%(groups)s))
        OR EXISTS (SELECT 1 FROM feedback_rating JOIN rollouts_rollout r ON r.id = rollout_id
            WHERE r.group_id = ANY(%(groups)s))"""


def _is_any_rated(groups: Sequence[int]) -> bool:
    """Tell whether anybody rated any of these groups; in most runs nobody did."""
    with connection.cursor() as cursor:
        cursor.execute(RATED, {"groups": list(groups)})
        return cursor.fetchone()[0]


def _votes(homes: dict[int, int]) -> list[Vote]:
    """Return the ratings in force about these rollouts (id → group), oldest first.

    Late ratings, and items that do not count for training, are left out.
    """
    standing = Rating.objects.in_time().annotate(
        settles=Exists(Adjudication.objects.filter(rating=OuterRef("pk")))
    )
    of_items = standing.filter(item__group__in=set(homes.values())).exclude(item__purpose__in=ASIDE)
    of_rollouts = standing.filter(rollout__in=homes, item=None)
    votes = [
        Vote(rating, rating.item.group_id, rating.settles)
        for rating in of_items.select_related("item", "rater")
    ]
    votes += [
        Vote(rating, homes[rating.rollout_id], rating.settles)
        for rating in of_rollouts.select_related("rater")
    ]
    return sorted(votes, key=lambda vote: vote.rating.pk)


def _aggregate_run(run: Run, votes: list[Vote], homes: dict[int, int]) -> list[Reward]:
    people = run.settings.people
    of_group = defaultdict(list)
    for vote in votes:
        of_group[vote.group].append(vote)
    qualities = load_qualities(run, votes)
    return [
        reward
        for group, group_votes in of_group.items()
        for reward in _aggregate_group(group, group_votes, people, qualities, homes)
    ]


def load_qualities(run: Run, votes: Sequence[Vote]) -> Qualities:
    """Return the reliability of each rater, by form, if the run's rule needs it.

    Two statements for each form.
    """
    people = run.settings.people
    forms = {
        vote.rating.form for vote in votes if vote.rating.form in FORMS and vote.rating.form != FLAG
    }
    return (
        {form: load_quality(run, form, people) for form in forms}
        if people.aggregation == "weighted"
        else {}
    )


def _aggregate_group(
    group: int, votes: list[Vote], people: People, qualities: Qualities, homes: dict[int, int]
) -> list[Reward]:
    votes = _undisputed(votes)
    decided, words, flags = aggregate_votes(votes, people, qualities)
    simulated = {vote.rating.pk for vote in votes if vote.rating.rater.is_simulated}
    rewards = [
        _reward(rollout, words[rollout], people, decided, simulated)
        for rollout in words
        if rollout not in flags
    ]
    rewards += [_broken(rollout, flag) for rollout, flag in flags.items()]
    # An answer of another group may have been ranked among them, to anchor the scale; its reward is
    # its own group's.
    return [reward for reward in rewards if homes.get(reward.rollout_id) == group]


def aggregate_votes(
    votes: list[Vote], people: People, qualities: Qualities
) -> tuple[list[DecidedValues], dict[int, AggregateValue], dict[int, Rating]]:
    """Return numeric votes about one group, their aggregate per rollout, and flags by rollout."""
    counted = _numeric_decisions(votes, people)
    return counted, RULES[people.aggregation](counted, qualities) if counted else {}, _flags(votes)


def _undisputed(votes: list[Vote]) -> list[Vote]:
    """Keep only the settling decision among the votes about the same rollouts, if there is one."""
    settled = {frozenset(vote.rating.members) for vote in votes if vote.settles}
    return [vote for vote in votes if vote.settles or frozenset(vote.rating.members) not in settled]


def _numeric_decisions(votes: list[Vote], people: People) -> list[DecidedValues]:
    """Return the decisions that have numeric values."""
    counted = []
    for vote in votes:
        rating = vote.rating
        values = FORMS[rating.form].values(rating.answer, rating.members, people)
        if values:
            counted.append(
                DecidedValues(
                    rating.pk, rating.rater_id, rating.form, rating.answer, rating.members, values
                )
            )
    return counted


def _flags(votes: list[Vote]) -> dict[int, Rating]:
    """Return the first flag on each rollout; a flag that names none of several applies to all."""
    flags: dict[int, Rating] = {}
    for vote in votes:
        if vote.rating.form == FLAG:
            flagged_rollout = vote.rating.answer.get("rollout")
            for rollout in [flagged_rollout] if flagged_rollout else vote.rating.members:
                flags.setdefault(rollout, vote.rating)
    return flags


def _reward(
    rollout: int,
    word: AggregateValue,
    people: People,
    decided: list[DecidedValues],
    simulated: set[int],
) -> Reward:
    ratings = [decision.rating for decision in decided if rollout in decision.values]
    details = {"rule": people.aggregation, "ratings": ratings, **_simulated(ratings, simulated)}
    return Reward(
        rollout_id=rollout,
        source=Reward.Source.HUMAN,
        scorer=PEOPLE,
        value=word.value,
        uncertainty=word.error,
        details=details,
    )


def _broken(rollout: int, flag: Rating) -> Reward:
    reason = f"flagged as broken: {flag.answer['reason']}"[:300]
    simulated_flags = {flag.pk} if flag.rater.is_simulated else set()
    return Reward(
        rollout_id=rollout,
        source=Reward.Source.HUMAN,
        scorer=PEOPLE,
        value=None,
        reason=reason,
        details={"rule": FLAG, "ratings": [flag.pk], **_simulated([flag.pk], simulated_flags)},
    )


def _simulated(ratings: list[int], simulated: set[int]) -> dict[str, object]:
    """Return a reward's details with its number of simulated ratings; empty if there are none."""
    count = sum(rating in simulated for rating in ratings)
    if not count:
        return {}
    return {SIMULATED: count, **({ALL_SIMULATED: True} if count == len(ratings) else {})}
