"""Checks of training: each committed step used valid experiences, once, and can be repeated."""

from collections.abc import Iterator

from django.db.models import Count, Exists, F, Max, OuterRef, Q

from apps.buffer.ledger import USES_ALLOWED
from apps.buffer.models import Experience, StepItem
from apps.rollouts.models import Rollout
from apps.runs.changing import UPDATES
from apps.runs.models import Run, TrainStep

SHOWN = 20


def trained_experiences_belong_to_committed_steps() -> Iterator[str]:
    """Yield experiences that are trained on too often, or by uncommitted steps.

    Also yields gaps in the sequence of steps.
    """
    counted = Experience.objects.annotate(
        commits=Count("step_items", filter=Q(step_items__step__state=TrainStep.State.COMMITTED))
    )
    for experience in counted.exclude(commits=F("uses"))[:SHOWN]:
        yield (
            f"{experience}: counts {experience.uses} uses, but is in {experience.commits} "
            "committed steps"
        )
    often = counted.usual().annotate(allowed=USES_ALLOWED)
    for experience in often.filter(
        Q(uses__gt=F("allowed")) | Q(state=Experience.State.TRAINED, uses=0)
    )[:SHOWN]:
        yield f"{experience}: {experience.state} with {experience.uses} uses"
    claimed = Experience.objects.filter(state=Experience.State.CLAIMED).exclude(
        step_items__step__state=TrainStep.State.PLANNED
    )
    yield from (f"{experience}: claimed, but in no planned step" for experience in claimed[:SHOWN])
    trained = Q(experiences__state=Experience.State.TRAINED)
    for run in Run.objects.annotate(n=Count("experiences", filter=trained)).exclude(
        n=F("experiences_trained")
    ):
        yield (
            f"{run}: the counter has {run.experiences_trained} trained experiences, the rows "
            f"{run.n}"
        )
    for run in Run.objects.annotate(
        n=Count("steps", filter=Q(steps__state=TrainStep.State.COMMITTED)),
        last=Max("steps__number", filter=Q(steps__state=TrainStep.State.COMMITTED)),
    ):
        if (run.n, run.last or 0) != (run.step, run.step):
            yield (
                f"{run}: at step {run.step}, but has {run.n} committed steps, the last of "
                f"which is {run.last}"
            )


def steps_record_their_settings() -> Iterator[str]:
    """Yield steps whose record lacks their settings.

    Without these the next trainer could not repeat the step. Ended runs are excluded: no trainer
    continues them.
    """
    silent = TrainStep.objects.exclude(run__state__in=Run.ENDED).exclude(
        knobs__has_keys=list(UPDATES)
    )
    for step in silent.select_related("run")[:SHOWN]:
        yield (f"{step}: has no complete record of its settings, so it cannot be repeated")


def trained_experiences_are_fresh_and_rewarded() -> Iterator[str]:
    items = StepItem.objects.filter(
        step__state=TrainStep.State.COMMITTED, experience__kind=Experience.Kind.USUAL
    )
    items = items.select_related("step__run", "experience")
    for run in Run.objects.filter(step__gt=0):
        late = items.filter(
            step__run=run, experience__weight_version__lt=F("step__version") - _loosest_bound(run)
        )
        yield from (
            (
                f"{run}: step {i.step.number} at version {i.step.version} trained on a rollout of "
                f"version {i.experience.weight_version}, which is too old"
            )
            for i in late[:SHOWN]
        )
    unjudged = items.exclude(experience__rollout__rewards__value__isnull=False)
    yield from (f"{item.experience}: trained, but has no reward" for item in unjudged[:SHOWN])


def _loosest_bound(run: Run) -> int:
    """Return the largest `max_staleness` the run ever had: it may change while the run is live."""
    changes = run.topic.events.filter(
        kind="config_changed", payload__before__has_key="max_staleness"
    )
    return max(
        [
            run.settings.max_staleness,
            *changes.values_list("payload__before__max_staleness", flat=True),
        ]
    )


def replays_match_the_recorded_run() -> Iterator[str]:
    """Yield copied rollouts and steps that differ from the recorded run."""
    equal_fields = {name: OuterRef(name) for name in ("origin", "sample_index", "text")}
    original = Rollout.objects.filter(group=OuterRef("group__recorded__of"), **equal_fields)
    copies = Rollout.objects.filter(
        group__recorded__expert=None, group__recorded__isnull=False, origin=Rollout.Origin.POLICY
    )
    yield from (
        f"{rollout}: the text differs from the recorded rollout"
        for rollout in copies.filter(~Exists(original))[:SHOWN]
    )
    trained_items = StepItem.objects.filter(
        experience__kind=Experience.Kind.USUAL, step__run__recorded__isnull=False
    ).distinct()
    wrong = trained_items.exclude(
        experience__group__recorded__step=F("step__number")
    ).select_related("step__run", "experience")
    yield from (
        (
            f"{item.step.run}: step {item.step.number} used {item.experience}, which is recorded "
            "for another step"
        )
        for item in wrong[:SHOWN]
    )
