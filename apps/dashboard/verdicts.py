"""What became of a rollout: admitted, trained in which step, or dropped and why; in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.buffer.models import Experience, StepItem
from apps.pipelines.models import CutRollout
from apps.rollouts.models import Group, Rollout
from apps.runs.models import TrainStep

ON_ITS_WAY = {
    Group.State.SAMPLING: "its group is still being sampled",
    Group.State.SCORING: "its group is being scored",
    Group.State.WAITING: "its group waits for people",
    Group.State.JUDGED: "its group is judged and goes to the refiner next",
}


@dataclass(frozen=True)
class Verdict:
    """`tone`: good (admitted), bad (dropped), or "" while it is open. `step`: the last update that trained on it."""

    words: str
    tone: str = ""
    step: int | None = None


# All that is told to who judges blind: whether it was used would tell how it was judged.
CLOSED = Verdict("Closed: its group waits for nobody any more")


def verdict_on(rollout: Rollout, learned: list[Experience]) -> Verdict:
    if learned:
        return _verdict_on_experience(learned[0])
    group = rollout.group
    if group.state == Group.State.DROPPED:
        return Verdict(f"Dropped: {group.reason}", "bad")
    if group.state == Group.State.MEASURED and rollout.state == Rollout.State.FINISHED:
        return Verdict("Evaluated: nothing is learned of it", "good")
    if rollout.state == Rollout.State.FAILED:
        return Verdict(f"Failed, never a reward: {rollout.stop_reason}", "bad")
    if group.state == Group.State.ADMITTED and (cut := CutRollout.objects.filter(rollout=rollout).first()):
        return Verdict(f"{_how(cut)} {cut.operator}: {cut.reason}", "bad")
    if group.state == Group.State.ADMITTED and rollout.run.settings.algorithm.advantage.name == "best":
        return Verdict("Not used: only the best of its group are imitated", "bad")
    if group.state == Group.State.ADMITTED:
        return Verdict("Not used: its group was admitted without it, for it has no reward or no token", "bad")
    return Verdict(f"Open: {ON_ITS_WAY[group.state]}")


def _how(cut: CutRollout) -> str:
    return "Counts in its group's baseline alone, by" if cut.is_silent else "Left out by"


def _verdict_on_experience(experience: Experience) -> Verdict:
    if experience.state == Experience.State.DROPPED:
        return Verdict(f"Dropped: {experience.reason}", "bad")
    items = StepItem.objects.filter(experience=experience).order_by("step__number")
    if experience.state == Experience.State.TRAINED:
        committed = list(items.filter(step__state=TrainStep.State.COMMITTED).values_list("step__number", "left_out"))
        if steps := [number for number, left_out in committed if not left_out]:
            return Verdict(f"Admitted and trained in {in_words(steps)}", "good", steps[-1])
        steps, reasons = zip(*committed, strict=True)
        return Verdict(f"Admitted, and left out of {in_words(steps)} by {reasons[-1]}", "bad", steps[-1])
    step = items.values_list("step__number", flat=True).last()
    if experience.state == Experience.State.CLAIMED:
        return Verdict(f"Admitted and planned into step {step:,}", "good", step)
    return Verdict("Admitted, ready for training", "good")


def in_words(steps: Sequence[int]) -> str:
    """`step 3`, `steps 3 and 5`, `steps 3, 5 and 9`."""
    *others, last = [f"{step:,}" for step in steps]
    return f"steps {', '.join(others)} and {last}" if others else f"step {last}"
