"""Rows that operators add, each linked to its source rollouts.

They become expert rows in the buffer, preference pairs among the lessons, or rollouts of their own
(apps.pipelines.offspring).
"""

from collections import Counter
from collections.abc import Sequence

from apps.buffer.models import Experience, NewExperience
from apps.feedback.models import Preference
from apps.pipelines import offspring
from apps.pipelines.applying import OperatorResult
from apps.pipelines.deciding import Decision
from apps.pipelines.models import MAX_REASON_LENGTH, OwnExpert
from apps.pipelines.operators.contract import Made

Rows = Sequence[tuple[OperatorResult, Made]]


def put_made(decision: Decision) -> Counter[int]:
    """Write the rows that operators made of the group; return how many are new, by place.

    Call it in the transaction that admits or drops the group.
    """
    rows = decision.made
    apart = [row for row in rows if row[1].stands_apart]
    within_group = [row for row in rows if not row[1].stands_apart]
    experts = [row for row in within_group if row[1].over is None]
    pairs = [row for row in within_group if row[1].over]
    created = offspring.put(decision.case.group, apart)
    if experts:
        created += _put_experts(decision, experts)
    if pairs:
        created += _put_pairs(decision, pairs)
    return created


def _put_experts(decision: Decision, rows: Rows) -> Counter[int]:
    """Write expert rows; skip one whose number of the task another group has taken meanwhile."""
    group = decision.case.group
    OwnExpert.objects.bulk_create(
        (
            OwnExpert(
                run_id=group.run_id,
                task_id=group.task_id,
                number=row.number,
                rollout_id=row.of.rollout,
                place=result.place,
                operator=result.operator,
                reason=row.reason[:MAX_REASON_LENGTH],
            )
            for result, row in rows
        ),
        ignore_conflicts=True,
    )
    places = dict(OwnExpert.objects.filter(rollout__group=group).values_list("rollout_id", "place"))
    Experience.objects.put(
        [
            NewExperience(
                run=group.run_id,
                group=group.pk,
                rollout=sample.rollout,
                kind=Experience.Kind.EXPERT,
                reward=sample.reward,
                advantage=0.0,
                weight_version=decision.case.first_version(sample.rollout),
            )
            for sample in decision.learned
            if sample.rollout in places
        ]
    )
    return Counter(places.values())


def _put_pairs(decision: Decision, rows: Rows) -> Counter[int]:
    """Write preference pairs as lessons without an author.

    Pairs with the same text stay unchanged.
    """
    group, run = decision.case.group, decision.case.group.run
    places: dict[str, int] = {}
    lessons: list[Preference] = []
    texts = {rollout.pk: rollout.text for rollout in decision.case.rollouts}
    for result, row in rows:
        assert row.over is not None  # a pair
        lesson = Preference(
            project_id=run.project_id,
            run=run,
            task_id=group.task_id,
            prompt=group.task.prompt,
            source=f"{result.operator.replace('_', ' ')} of {run.slug}",
            chosen=texts[row.of.rollout],
            rejected=texts[row.over.rollout],
            margin=row.margin,
            chosen_rollout_id=row.of.rollout,
            rejected_rollout_id=row.over.rollout,
        ).keyed()
        if places.setdefault(lesson.key, result.place) == result.place:
            lessons.append(lesson)
    Preference.objects.bulk_create(lessons, ignore_conflicts=True)
    ours = Preference.objects.filter(run=run, author=None, chosen_rollout__group=group)
    return Counter(places[key] for key in ours.values_list("key", flat=True) if key in places)
