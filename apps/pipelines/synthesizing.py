"""Rows that operators add, each named with the rollouts that it was made of: expert rows in the buffer, pairs among the lessons,
and rollouts of their own (apps.pipelines.offspring).
"""

from collections import Counter
from collections.abc import Sequence

from apps.buffer.models import Experience
from apps.feedback.models import Preference
from apps.pipelines import offspring
from apps.pipelines.applying import Pass
from apps.pipelines.deciding import Decision
from apps.pipelines.models import LONGEST_REASON, OwnExpert
from apps.pipelines.operators.contract import Made

Rows = Sequence[tuple[Pass, Made]]


def put_made(decision: Decision) -> Counter[int]:
    """Write what the group's operators made of it; how many rows are new, by place of the pipeline.

    Called in the transaction that admits the group, or drops it.
    """
    made = decision.made
    apart, others = [row for row in made if row[1].stands_apart], [row for row in made if not row[1].stands_apart]
    experts, pairs = [row for row in others if row[1].over is None], [row for row in others if row[1].over]
    found = offspring.put(decision.case.group, apart)
    if experts:
        found += _put_experts(decision, experts)
    if pairs:
        found += _put_pairs(decision, pairs)
    return found


def _put_experts(decision: Decision, rows: Rows) -> Counter[int]:
    """A number of a task that another group has taken meanwhile makes no row."""
    group = decision.case.group
    OwnExpert.objects.bulk_create(
        (
            OwnExpert(
                run_id=group.run_id, task_id=group.task_id, number=made.number, rollout_id=made.of.rollout, place=one.place,
                operator=one.operator, reason=made.reason[:LONGEST_REASON],
            )
            for one, made in rows
        ),
        ignore_conflicts=True,
    )  # fmt: skip
    places = dict(OwnExpert.objects.filter(rollout__group=group).values_list("rollout_id", "place"))
    versions = {rollout.pk: rollout.first_version for rollout in decision.case.rollouts}
    Experience.objects.put(
        Experience(
            run_id=group.run_id, group=group, rollout_id=sample.rollout, kind=Experience.Kind.EXPERT, reward=sample.reward,
            advantage=0.0, weight_version=versions[sample.rollout],
        )
        for sample in decision.learned
        if sample.rollout in places
    )  # fmt: skip
    return Counter(places.values())


def _put_pairs(decision: Decision, rows: Rows) -> Counter[int]:
    """As lessons of the project that nobody said; what is there already, of the same words, stays as it is."""
    group, run = decision.case.group, decision.case.group.run
    places: dict[str, int] = {}
    lessons = []
    texts = {rollout.pk: rollout.text for rollout in decision.case.rollouts}
    for one, made in rows:
        lesson = Preference(
            project_id=run.project_id, run=run, task_id=group.task_id, prompt=group.task.prompt,
            source=f"{one.operator.replace('_', ' ')} of {run.slug}", chosen=texts[made.of.rollout],
            rejected=texts[made.over.rollout], margin=made.margin, chosen_rollout_id=made.of.rollout,
            rejected_rollout_id=made.over.rollout,
        ).keyed()  # fmt: skip
        if places.setdefault(lesson.key, one.place) == one.place:
            lessons.append(lesson)
    Preference.objects.bulk_create(lessons, ignore_conflicts=True)
    ours = Preference.objects.filter(run=run, author=None, chosen_rollout__group=group)
    return Counter(places[key] for key in ours.values_list("key", flat=True) if key in places)
