"""The timeline of a rollout: sampled, rewarded, refined, trained; each stage with its time."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from apps.buffer.models import Experience, Offspring, StepItem
from apps.dashboard.rollout_rows import JudgedRollout
from apps.dashboard.verdicts import ON_ITS_WAY, Verdict
from apps.feedback.models import Preference
from apps.pipelines.models import OwnExpert
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.rollouts.partial import PartialRollout

STEPS = 3  # steps shown of those that trained on it, the newest
PAIRS = 3
OFFSPRING = 3


@dataclass(frozen=True)
class TimelineStage:
    """A stage of the timeline.

    `step` is its step and `version` its weights, both for links. `at` is None for the present
    stage, and where no time was recorded.
    """

    title: str
    words: str
    at: datetime | None = None
    tone: str = ""
    step: int | None = None
    version: int | None = None


def list_rollout_stages(
    rollout: JudgedRollout, verdict: Verdict, is_open: bool
) -> list[TimelineStage]:
    """Return the stages of a rollout.

    At most four queries, five for one that became an expert row, and one more for one from another
    run. People who rate blind see only that it was sampled, and whether it is closed.
    """
    if rollout.origin == Rollout.Origin.EXPERT:
        written = TimelineStage(
            "Written",
            f"by an expert for {_task_of(rollout)}",
            rollout.finished_at or rollout.started_at,
        )
        return [written, *(_training_stages(rollout, verdict) if is_open else ())]
    if offspring := getattr(rollout, "descent", None):
        created = TimelineStage(
            "Created",
            (
                f"by {offspring.operator} from rollout {offspring.of_id} for {_task_of(rollout)}:"
                f" {offspring.reason}"
            ),
            offspring.at,
        )
        return [created, *(_training_stages(rollout, verdict) if is_open else ())]
    group = rollout.group
    life = [
        *_seed_stages(rollout, is_open),
        TimelineStage(
            "Created", f"group {group.draw_index:,}: {_task_of(rollout)}", group.opened_at
        ),
        _sampling_stage(rollout, is_open),
    ]
    if rollout.is_sampling:
        return life
    valued = [reward for reward in rollout.judgements if reward.value is not None]
    if is_open and (valued or group.judged_at):
        life.append(TimelineStage("Rewarded", _judges(valued) or "no rewards", group.judged_at))
    return [
        *life,
        *_stages_after_sampling(rollout, verdict, is_open),
        *((*_offspring_stages(rollout), *_preference_stages(rollout)) if is_open else ()),
    ]


def _task_of(rollout: Rollout) -> str:
    """Return the task's number, with its taskset unless it is the run's only one."""
    task = rollout.group.task
    return f"task {task.index:,}" + (
        "" if rollout.run.taskset_id == task.taskset_id else f" of {task.taskset.slug}"
    )


def _seed_stages(rollout: Rollout, is_open: bool) -> Iterator[TimelineStage]:
    """Yield the stage of being copied from another run's rollout."""
    if seed := getattr(rollout.group, "seed", None):
        parent = Rollout.objects.get(
            group=seed.of_id, origin=rollout.origin, sample_index=rollout.sample_index
        )
        version_words = (
            f", sampled by its v{parent.last_version}"
            if is_open and parent.last_version is not None
            else ""
        )
        yield TimelineStage(
            "Seeded",
            f"copied from rollout {parent.pk} of {seed.of.run.slug}{version_words}",
            seed.at,
        )


def _sampling_stage(rollout: Rollout, is_open: bool) -> TimelineStage:
    if rollout.is_sampling:
        partial = (
            PartialRollout.objects.filter(rollout=rollout)
            .only("completion_tokens", "slices", "stored_at")
            .first()
        )
        if partial is None:
            return TimelineStage("Sampling", "in progress")
        slices = f"{partial.slices:,} slice{'' if partial.slices == 1 else 's'}"
        return TimelineStage(
            "Sampling",
            f"{partial.completion_tokens:,} tokens stored in {slices}",
            partial.stored_at,
        )
    if rollout.state == Rollout.State.FAILED:
        return TimelineStage("Failed", rollout.stop_reason, rollout.finished_at, "bad")
    version_words = (
        f" by v{rollout.last_version}" if is_open and rollout.last_version is not None else ""
    )
    return TimelineStage(
        "Sampled", f"{rollout.completion_tokens:,} tokens{version_words}", rollout.finished_at
    )


def _judges(rewards: list[Reward]) -> str:
    simulated = sum(reward.is_simulated for reward in rewards)
    people = sum(reward.source == Reward.Source.HUMAN for reward in rewards) - simulated
    machines = len(rewards) - people - simulated
    words = (
        (machines, "scorer reward"),
        (people, "reward from people"),
        (simulated, "simulated reward"),
    )
    return ", ".join(
        f"{count} {word if count == 1 else word.replace('reward', 'rewards')}"
        for count, word in words
        if count
    )


def _stages_after_sampling(
    rollout: JudgedRollout, verdict: Verdict, is_open: bool
) -> Iterator[TimelineStage]:
    group = rollout.group
    if group.state in Group.OPEN:
        yield TimelineStage("Open", ON_ITS_WAY[group.state])
    elif not is_open:
        yield TimelineStage("Closed", "no more ratings needed")
    elif not rollout.learned:
        yield TimelineStage("Refined", verdict.words, group.closed_at, verdict.tone)
    else:
        advantage = f"{rollout.learned[0].advantage:+.2f}".replace("-", "−")
        yield TimelineStage("Refined", f"admitted with advantage {advantage}", group.closed_at)
        yield from _training_stages(rollout, verdict)
        yield from _expert_row_stage(rollout)


def _expert_row_stage(rollout: JudgedRollout) -> Iterator[TimelineStage]:
    """Yield the stage of becoming an expert row besides a sample."""
    row = next(
        (experience for experience in rollout.learned if experience.kind == Experience.Kind.EXPERT),
        None,
    )
    if row and (own_expert := OwnExpert.objects.filter(rollout=rollout).first()):
        usage = f"used in {row.uses:,} step{'' if row.uses == 1 else 's'} so far"
        exclusion = f", then excluded: {row.reason}" if row.reason else ""
        yield TimelineStage(
            "Added as expert row",
            f"by {own_expert.operator}: {own_expert.reason}; {usage}{exclusion}",
            own_expert.at,
            "" if exclusion else "good",
        )


def _offspring_stages(rollout: Rollout) -> Iterator[TimelineStage]:
    """Yield stages for the first rollouts that operators made from it."""
    for offspring in Offspring.objects.filter(of=rollout).order_by("pk")[:OFFSPRING]:
        became = f"rollout {offspring.rollout_id}" if offspring.rollout_id else "pending"
        words = f"by {offspring.operator}: {offspring.reason}; {offspring.refused or became}"
        yield TimelineStage(
            "New rollout created", words, offspring.at, "bad" if offspring.refused else "good"
        )


def _preference_stages(rollout: Rollout) -> Iterator[TimelineStage]:
    """Yield stages for the first preference pairs that it is part of."""
    pairs = Preference.objects.filter(
        Q(chosen_rollout=rollout) | Q(rejected_rollout=rollout)
    ).order_by("pk")
    for pair in pairs[:PAIRS]:
        is_chosen = pair.chosen_rollout_id == rollout.pk
        other_rollout = pair.rejected_rollout_id if is_chosen else pair.chosen_rollout_id
        words = (
            f"{'better' if is_chosen else 'worse'} than"
            f" {f'rollout {other_rollout}' if other_rollout else 'the written reply'};"
            f" {pair.source}"
        )
        yield TimelineStage("Added to a preference", words, pair.at, "good" if is_chosen else "")


def _training_stages(rollout: JudgedRollout, verdict: Verdict) -> Iterator[TimelineStage]:
    uses = (
        StepItem.objects.filter(experience__in=rollout.learned[:1])
        .select_related("step")
        .order_by("-step__number")
    )
    items = list(uses[:STEPS])[::-1]
    steps = [item.step for item in items]
    if not steps:
        yield TimelineStage(
            "Dropped" if verdict.tone == "bad" else "Ready", verdict.words, None, verdict.tone
        )
    for item, step in zip(items, steps, strict=True):
        state = "Trained" if step.committed_at else "Planned"
        left_out = f"excluded from the loss by {item.left_out}" if item.left_out else ""
        yield TimelineStage(
            state,
            left_out,
            step.committed_at or step.planned_at,
            "" if left_out else "good",
            step.number,
        )
    if steps and steps[0].committed_at:
        weights = (
            rollout.run.weight_versions.filter(step__gte=steps[0].number)
            .exclude(state="refused")
            .order_by("step")
            .first()
        )
        if weights:
            yield TimelineStage(
                "Published", "", weights.published_at, "good", version=weights.version
            )
