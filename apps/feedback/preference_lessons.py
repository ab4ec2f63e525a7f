"""Turn a run's ratings into preference lessons of its project.

Ratings that came too late are included. One person's ratings in force of one group make a lesson
for every two answers with different values (`exporting.rows.preferred`). A repeat changes nothing:
lessons are never changed, nor removed when their rating is withdrawn.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from django.db import transaction
from django.db.models import Q

from apps.feedback.exporting.rows import in_batches, preferred
from apps.feedback.models import FLAG, Adjudication, Preference, Rating
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from apps.runs.people import People

WITHDRAWN = "replaced or taken back"
SETTLED = "another word settled the dispute"
FLAGGED = "flags, or about a reply that somebody flagged as broken"
DIALOGUE = "about a dialogue, whose whole text is no answer to its first message"
NO_ORDER = "their rater put no other answer of the group above or below"


@dataclass
class DrawnLessons:
    """The result: new and existing lessons from `ratings` of the run's ratings.

    `late` were among them; `skipped` counts the unused ones by reason.
    """

    new: int = 0
    existing: int = 0
    ratings: int = 0
    late: int = 0
    skipped: Counter[str] = field(default_factory=Counter)


@transaction.atomic
def draw_rated(run: Run) -> DrawnLessons:
    """Save the preferences implied by the run's ratings.

    A few hundred groups are in memory at a time.
    """
    drawn = DrawnLessons()
    people = run.settings.people
    for groups in in_batches(
        Group.objects.filter(run=run, draw_index__isnull=False).select_related("task")
    ):
        _keep(list(_lessons(run, groups, people, drawn)), drawn)
    return drawn


def _lessons(
    run: Run, groups: Sequence[Group], people: People, drawn: DrawnLessons
) -> Iterator[Preference]:
    rollouts = {
        rollout.pk: rollout
        for rollout in Rollout.objects.filter(group__in=groups).only("group_id", "text", "turns")
    }
    by_hand = _usable_ratings(run, groups, rollouts, drawn)
    tasks = {group.pk: group.task for group in groups}
    for (group, rater), ratings in by_hand.items():
        ordered: set[int] = set()
        for better, worse, margin, _ in preferred(ratings, people):
            ordered |= {better, worse}
            chosen = rollouts[better].text
            rejected = rollouts[worse].text
            if chosen.strip() and rejected.strip() and chosen != rejected:
                yield Preference(
                    project_id=run.project_id,
                    run=run,
                    task=tasks[group],
                    prompt=tasks[group].prompt,
                    author_id=rater,
                    source=f"ratings of {run.slug}",
                    chosen=chosen,
                    rejected=rejected,
                    margin=margin,
                    chosen_rollout_id=better,
                    rejected_rollout_id=worse,
                ).keyed()
        used_ratings = [rating for rating in ratings if ordered & set(rating.members)]
        drawn.ratings += len(used_ratings)
        drawn.late += sum(rating.is_late for rating in used_ratings)
        drawn.skipped[NO_ORDER] += len(ratings) - len(used_ratings)


def _usable_ratings(
    run: Run, groups: Sequence[Group], rollouts: dict[int, Rollout], drawn: DrawnLessons
) -> dict[tuple[int, int], list[Rating]]:
    """Return the usable ratings of these groups, by group and rater, oldest first.

    The others are counted.
    """
    in_groups = Q(item__group__in=groups) | Q(rollout__group__in=groups)
    ratings = list(Rating.objects.filter(in_groups, run=run).exclude(form="rewrite").order_by("pk"))
    settled = dict(
        Adjudication.objects.filter(item__group__in=groups).values_list("item", "rating")
    )
    broken = {
        pk
        for rating in ratings
        if rating.form == FLAG and rating.is_standing
        for pk in _flagged(rating)
    }
    usable: dict[tuple[int, int], list[Rating]] = defaultdict(list)
    for rating in ratings:
        if not rating.is_standing:
            drawn.skipped[WITHDRAWN] += 1
        elif rating.item_id and settled.get(rating.item_id, rating.pk) != rating.pk:
            drawn.skipped[SETTLED] += 1
        elif rating.form == FLAG or broken & set(rating.members):
            drawn.skipped[FLAGGED] += 1
        elif any(_is_dialogue(rollouts[pk]) for pk in rating.members):
            drawn.skipped[DIALOGUE] += 1
        else:
            usable[rollouts[rating.members[0]].group_id, rating.rater_id].append(rating)
    return usable


def _flagged(rating: Rating) -> list[int]:
    return [rating.answer["rollout"]] if "rollout" in rating.answer else rating.members


def _is_dialogue(rollout: Rollout) -> bool:
    return any(turn["role"] == "user" for turn in rollout.turns)


def _keep(lessons: Sequence[Preference], drawn: DrawnLessons) -> None:
    """Save new lessons: one per person about the same two answers, the first."""
    fresh = {(lesson.author_id, lesson.key): lesson for lesson in reversed(lessons)}
    existing_keys = Preference.objects.existing(lessons)
    new = [lesson for key, lesson in fresh.items() if key not in existing_keys]
    Preference.objects.bulk_create(reversed(new))
    drawn.new += len(new)
    drawn.existing += len(lessons) - len(new)
