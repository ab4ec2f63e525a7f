"""A rollout's life, station by station: drawn, rolled out, rewarded, refined, trained; each with its time and what it was."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from apps.buffer.models import Experience, Offspring, StepItem
from apps.dashboard.verdicts import ON_ITS_WAY, Verdict
from apps.feedback.models import Preference
from apps.pipelines.models import OwnExpert
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.rollouts.partial import PartialRollout

STEPS = 3  # shown of those that trained on it, the newest
PAIRS = 3
OFFSPRING = 3


@dataclass(frozen=True)
class Station:
    """`step`: the update it tells of, for a link to its batch; `version`: the weights, for a link to theirs.

    `at` None: it is there now, or nobody wrote down when.
    """

    title: str
    words: str
    at: datetime | None = None
    tone: str = ""
    step: int | None = None
    version: int | None = None


def life_of(rollout: Rollout, verdict: Verdict, is_open: bool) -> list[Station]:
    """At most four queries, five of what became an expert row, and one more of what came from another run.

    For who judges blind, nothing of how it was judged: drawn, rolled out, and closed or not.
    """
    if rollout.origin == Rollout.Origin.EXPERT:
        written = Station("Written", f"by an expert, for {_task_of(rollout)}", rollout.finished_at or rollout.started_at)
        return [written, *(_learned(rollout, verdict) if is_open else ())]
    if made := getattr(rollout, "descent", None):
        said = Station("Made", f"by {made.operator} of rollout {made.of_id}, for {_task_of(rollout)}: {made.reason}", made.at)
        return [said, *(_learned(rollout, verdict) if is_open else ())]
    group = rollout.group
    life = [
        *_seeded(rollout, is_open),
        Station("Drawn", f"draw {group.draw_index:,}: {_task_of(rollout)}", group.opened_at),
        _rolled_out(rollout, is_open),
    ]
    if rollout.is_sampling:
        return life
    said = [reward for reward in rollout.judgements if reward.value is not None]
    if is_open and (said or group.judged_at):
        life.append(Station("Rewarded", _judges(said) or "by nobody", group.judged_at))
    return [*life, *_rest(rollout, verdict, is_open), *((*_became(rollout), *_compared(rollout)) if is_open else ())]


def _task_of(rollout: Rollout) -> str:
    """By its number, and where it is of no other than the run's one taskset without that set's name."""
    task = rollout.group.task
    return f"task {task.index:,}" + ("" if rollout.run.taskset_id == task.taskset_id else f" of {task.taskset.slug}")


def _seeded(rollout: Rollout, is_open: bool) -> Iterator[Station]:
    """What it was copied from, where this run did not sample it."""
    if seed := getattr(rollout.group, "seed", None):
        parent = Rollout.objects.get(group=seed.of_id, origin=rollout.origin, sample_index=rollout.sample_index)
        by = f", sampled by its v{parent.last_version}" if is_open and parent.last_version is not None else ""
        yield Station("Seeded", f"copied from rollout {parent.pk} of {seed.of.run.slug}{by}", seed.at)


def _rolled_out(rollout: Rollout, is_open: bool) -> Station:
    if rollout.is_sampling:
        kept = PartialRollout.objects.filter(rollout=rollout).only("completion_tokens", "slices", "stored_at").first()
        if kept is None:
            return Station("Rolling out", "it is being written")
        slices = f"{kept.slices:,} slice{'' if kept.slices == 1 else 's'}"
        return Station("Rolling out", f"{kept.completion_tokens:,} tokens are stored, of {slices}", kept.stored_at)
    if rollout.state == Rollout.State.FAILED:
        return Station("Failed", rollout.stop_reason, rollout.finished_at, "bad")
    by = f" by v{rollout.last_version}" if is_open and rollout.last_version is not None else ""
    return Station("Rolled out", f"{rollout.completion_tokens:,} tokens{by}", rollout.finished_at)


def _judges(said: list[Reward]) -> str:
    simulated = sum(reward.is_simulated for reward in said)
    people = sum(reward.source == Reward.Source.HUMAN for reward in said) - simulated
    machines = len(said) - people - simulated
    words = (
        (machines, "machine reward"),
        (people, "reward by people"),
        (simulated, "simulated reward"),
    )
    return ", ".join(f"{count} {word if count == 1 else word.replace('reward', 'rewards')}" for count, word in words if count)


def _rest(rollout: Rollout, verdict: Verdict, is_open: bool) -> Iterator[Station]:
    group = rollout.group
    if group.state in Group.OPEN:
        yield Station("Open", ON_ITS_WAY[group.state])
    elif not is_open:
        yield Station("Closed", "its group waits for nobody any more")
    elif not rollout.learned:
        yield Station("Refined", verdict.words, group.closed_at, verdict.tone)
    else:
        advantage = f"{rollout.learned[0].advantage:+.2f}".replace("-", "−")
        yield Station("Refined", f"admitted with advantage {advantage}", group.closed_at)
        yield from _learned(rollout, verdict)
        yield from _imitated(rollout)


def _imitated(rollout: Rollout) -> Iterator[Station]:
    """What it became beside what it was sampled for."""
    row = next((one for one in rollout.learned if one.kind == Experience.Kind.EXPERT), None)
    if row and (made := OwnExpert.objects.filter(rollout=rollout).first()):
        taken = f"in {row.uses:,} update{'' if row.uses == 1 else 's'} so far"
        left = f", then left out: {row.reason}" if row.reason else ""
        yield Station("Became an expert row", f"by {made.operator}: {made.reason}; {taken}{left}", made.at, "" if left else "good")


def _became(rollout: Rollout) -> Iterator[Station]:
    """Rollouts that operators made of it, the first ones."""
    for made in Offspring.objects.filter(of=rollout).order_by("pk")[:OFFSPRING]:
        became = f"rollout {made.rollout_id}" if made.rollout_id else "one that the trainer has not taken in yet"
        words = f"by {made.operator}: {made.reason}; {made.refused or became}"
        yield Station("Became another rollout", words, made.at, "bad" if made.refused else "good")


def _compared(rollout: Rollout) -> Iterator[Station]:
    """Pairs that it is half of, the first ones."""
    pairs = Preference.objects.filter(Q(chosen_rollout=rollout) | Q(rejected_rollout=rollout)).order_by("pk")
    for pair in pairs[:PAIRS]:
        is_chosen = pair.chosen_rollout_id == rollout.pk
        other = pair.rejected_rollout_id if is_chosen else pair.chosen_rollout_id
        words = f"{'better' if is_chosen else 'worse'} than {f'rollout {other}' if other else 'what was written'}; {pair.source}"
        yield Station("Became half of a pair", words, pair.at, "good" if is_chosen else "")


def _learned(rollout: Rollout, verdict: Verdict) -> Iterator[Station]:
    taken = StepItem.objects.filter(experience__in=rollout.learned[:1]).select_related("step").order_by("-step__number")
    items = list(taken[:STEPS])[::-1]
    steps = [item.step for item in items]
    if not steps:
        yield Station("Dropped" if verdict.tone == "bad" else "Ready", verdict.words, None, verdict.tone)
    for item, step in zip(items, steps, strict=True):
        state = "Trained" if step.committed_at else "Planned"
        left_out = f"left out of its loss by {item.left_out}" if item.left_out else ""
        yield Station(state, left_out, step.committed_at or step.planned_at, "" if left_out else "good", step.number)
    if steps and steps[0].committed_at:
        weights = rollout.run.weight_versions.filter(step__gte=steps[0].number).exclude(state="refused").order_by("step").first()
        if weights:
            yield Station("In the weights", "", weights.published_at, "good", version=weights.version)
