"""Outcomes of rollouts in words: admitted, trained in which step, or dropped and why."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from apps.buffer.models import Experience, StepItem
from apps.pipelines.models import CutRollout
from apps.rollouts.models import Group, Rollout
from apps.runs.models import TrainStep

ON_ITS_WAY: dict[str, str] = {
    Group.State.SAMPLING: "its group is still being sampled",
    Group.State.SCORING: "its group is being scored",
    Group.State.WAITING: "its group is waiting for people",
    Group.State.JUDGED: "its group is scored and goes to the pipeline next",
}


@dataclass(frozen=True)
class Verdict:
    """An outcome; `tone` is good (admitted), bad (dropped), or "" while it is open.

    `step` is the last step that trained on it.
    """

    words: str
    tone: str = ""
    step: int | None = None


# The only outcome shown to blind raters: whether it was used would reveal its ratings.
CLOSED = Verdict("Closed: no more ratings needed")


def verdict_on(rollout: Rollout, learned: Sequence[Experience]) -> Verdict:
    return verdicts_on([(rollout, learned)])[rollout.pk]


def verdicts_on(pairs: Sequence[tuple[Rollout, Sequence[Experience]]]) -> dict[int, Verdict]:
    """Return the outcomes by rollout; each rollout comes with its experiences.

    At most two queries.
    """
    first = {rollout.pk: learned[0] for rollout, learned in pairs if learned}
    items: dict[int, list[StepItem]] = defaultdict(list)
    if experiences := [
        experience.pk
        for experience in first.values()
        if experience.state != Experience.State.DROPPED
    ]:
        for item in (
            StepItem.objects.filter(experience__in=experiences)
            .select_related("step")
            .order_by("step__number")
        ):
            items[item.experience_id].append(item)
    cuts: dict[int, CutRollout] = {}
    if unlearned := [
        rollout.pk
        for rollout, learned in pairs
        if not learned and rollout.group.state == Group.State.ADMITTED
    ]:
        cuts = {
            cut.rollout_id: cut
            for cut in CutRollout.objects.filter(rollout__in=unlearned).order_by("-pk")
        }
    return {
        rollout.pk: (
            _verdict_on_experience(first[rollout.pk], items[first[rollout.pk].pk])
            if learned
            else _verdict_on_unlearned(rollout, cuts.get(rollout.pk))
        )
        for rollout, learned in pairs
    }


def _verdict_on_unlearned(rollout: Rollout, cut: CutRollout | None) -> Verdict:
    group = rollout.group
    if group.state == Group.State.DROPPED:
        return Verdict(f"Dropped: {group.reason}", "bad")
    if group.state == Group.State.MEASURED and rollout.state == Rollout.State.FINISHED:
        return Verdict("Evaluation: not trained on", "good")
    if rollout.state == Rollout.State.FAILED:
        return Verdict(f"Failed, no reward: {rollout.stop_reason}", "bad")
    if cut:
        return Verdict(f"{_how(cut)} {cut.operator}: {cut.reason}", "bad")
    if (
        group.state == Group.State.ADMITTED
        and rollout.run.settings.algorithm.advantage.name == "best"
    ):
        return Verdict("Not used: only the best replies of the group are trained on", "bad")
    if group.state == Group.State.ADMITTED:
        return Verdict("Not used: it has no reward or no tokens", "bad")
    return Verdict(f"Open: {ON_ITS_WAY[group.state]}")


def _how(cut: CutRollout) -> str:
    return "Only counts in its group's baseline, by" if cut.is_silent else "Excluded by"


def _verdict_on_experience(experience: Experience, items: Sequence[StepItem]) -> Verdict:
    """Return the outcome; `items` are its uses, in the order of their steps."""
    if experience.state == Experience.State.DROPPED:
        return Verdict(f"Dropped: {experience.reason}", "bad")
    if experience.state == Experience.State.TRAINED:
        committed = [
            (item.step.number, item.left_out)
            for item in items
            if item.step.state == TrainStep.State.COMMITTED
        ]
        if steps := [number for number, left_out in committed if not left_out]:
            return Verdict(f"Admitted and trained in {format_steps(steps)}", "good", steps[-1])
        steps = [number for number, _ in committed]
        last, reason = committed[-1]
        return Verdict(
            f"Admitted, but excluded from {format_steps(steps)} by {reason}", "bad", last
        )
    if experience.state == Experience.State.CLAIMED:
        step = items[-1].step.number
        return Verdict(f"Admitted and planned for step {step:,}", "good", step)
    return Verdict("Admitted, ready for training", "good", items[-1].step.number if items else None)


def format_steps(steps: Sequence[int]) -> str:
    """Format steps: `step 3`, `steps 3 and 5`, `steps 3, 5 and 9`."""
    *earlier, last = [f"{step:,}" for step in steps]
    return f"steps {', '.join(earlier)} and {last}" if earlier else f"step {last}"
