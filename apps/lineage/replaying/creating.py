"""Create a replaying run. It is proposed first, with its numbers.

The recorded run is not changed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from django.db import IntegrityError, transaction
from django.db.models import F, Max

from apps.accounts.models import User
from apps.accounts.public_text import public_text
from apps.buffer.models import Experience, StepItem
from apps.buffer.retention import count_deleted_arrays
from apps.feedback.models import RaterModel
from apps.feedback.rater_model.heads import KIND as SCALAR_HEAD
from apps.lineage.replaying.first_use import Beginning, find_beginning, find_first_and_last_use
from apps.lineage.replaying.leaving_out import LeftOut, UnknownLeftOut
from apps.policies.copying import NotCopied
from apps.policies.models import Policy
from apps.rewards.models import Rescoring
from apps.rollouts.models import Rollout
from apps.runs.models import Run, TrainStep, WeightVersion
from apps.runs.naming import MAX_SLUG_LENGTH, free_name
from apps.runs.parsing import parse_config
from apps.runs.promoting import promoted
from apps.runs.replay import Replay


class NothingToReplay(ValueError):
    """Raised for a replay that cannot be made; the message says why and what to do.

    `kind` is `raters` or `tasks` if unknown ones were to be left out.
    """

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Proposal:
    """A proposed replay: from which version, how many steps, and how much data is excluded."""

    run: Run
    raters: tuple[str, ...]
    tasks: tuple[int, ...]
    left_out: LeftOut
    beginning: Beginning
    steps: int
    ratings: int
    answers: int
    rescoring: Rescoring | None = None

    @property
    def last_step(self) -> int:
        return self.beginning.version.step + self.steps

    @cached_property
    def unscored(self) -> int:
        """Return how many of the steps' groups the new set of rewards does not judge.

        These groups are left out.
        """
        if self.rescoring is None:
            return 0
        items = StepItem.objects.filter(
            step__run=self.run,
            step__number__gt=self.beginning.version.step,
            step__number__lte=self.last_step,
            experience__kind="usual",
        )
        rescored_groups = self.rescoring.items.values("group")
        return (
            items.exclude(experience__group__in=rescored_groups)
            .values("experience__group")
            .distinct()
            .count()
        )

    @property
    def has_heads(self) -> bool:
        """Tell whether trained heads had learned excluded data.

        The ridge, fitted without that data, replaces them.
        """
        tainted_heads = RaterModel.objects.filter(
            run=self.run, number__in=self.left_out.tainted_models, kind=SCALAR_HEAD
        )
        return tainted_heads.exists()

    @property
    def slug(self) -> str:
        """Return a free name that says what is left out."""
        excluded = [*self.raters, *(f"task-{index}" for index in self.tasks)]
        again = (
            f"{self.run.slug}-by-{'-'.join(self.rescoring.names)}"
            if self.rescoring
            else f"{self.run.slug}-again"
        )
        name = re.sub(
            r"[^a-zA-Z0-9_-]+",
            "-",
            f"{self.run.slug}-without-{'-'.join(excluded)}" if excluded else again,
        )
        return free_name(name[:MAX_SLUG_LENGTH].strip("-"), self.run.project.runs.all())

    @property
    def title(self) -> str:
        excluded = [*self.raters, *(f"task {index}" for index in self.tasks)]
        if excluded:
            difference = f"without {', '.join(excluded)}"
        elif self.rescoring:
            difference = f"scored by {', '.join(self.rescoring.names)}"
        else:
            difference = "made again"
        return f"{self.run.title}, {difference}"[:200]


def why_not_replayable(run: Run) -> str:
    """Return why a run's recorded data cannot be replayed; "" if it can."""
    if run.settings.algorithm.learns_from_lessons:
        return (
            f"{run.slug} learns from a snapshot of lessons: create a run with another `snapshot`"
            " section instead"
        )
    if run.settings.serve:
        return (
            f"{run.slug} serves callers, and their feedback belongs to their sessions: it can’t"
            " be replayed"
        )
    if run.settings.environment:
        return (
            f"{run.slug} acted in an environment, which gave its rewards during play: it can’t be"
            " replayed"
        )
    if _trained_on_own_samples(run):
        return (
            f"{run.slug} learned from expert rows that its pipeline made from its replies: it"
            " can’t be replayed"
        )
    if not run.step:
        return f"{run.slug} has no training step yet"
    return ""


def _trained_on_own_samples(run: Run) -> bool:
    expert_rollouts = Rollout.objects.filter(
        experiences__kind=Experience.Kind.EXPERT, run=run
    ).exclude(origin=Rollout.Origin.EXPERT)
    return StepItem.objects.filter(
        experience__rollout__in=expert_rollouts, experience__kind=Experience.Kind.EXPERT
    ).exists()


def propose(
    run: Run,
    raters: Sequence[str] = (),
    tasks: Sequence[int] = (),
    rescoring: Rescoring | None = None,
) -> Proposal:
    """Propose a replay without these people (usernames) and tasks (indexes).

    It learns from the new rewards of `rescoring`, if given. Raises NothingToReplay.
    """
    if reason := why_not_replayable(run) or (unfit(rescoring) if rescoring else ""):
        raise NothingToReplay(reason)
    raters = tuple(dict.fromkeys(raters))
    tasks = tuple(dict.fromkeys(tasks))
    try:
        left_out = LeftOut.of(run, raters, tasks)
    except UnknownLeftOut as unknown:
        raise NothingToReplay(str(unknown), unknown.kind) from None
    beginning = find_beginning(run, left_out, rescoring)
    if (raters or tasks) and beginning.first_use is None:
        names = ", ".join([*raters, *(f"task {index}" for index in tasks)])
        raise NothingToReplay(
            f"{names} had no influence on the weights of {run.slug}: a replay would give the same"
            " result"
        )
    last = find_first_and_last_use(rescoring)[1] if rescoring else run.step
    assert last is not None  # `unfit` refuses a rescoring without any use
    steps = last - beginning.version.step
    replayed_steps = run.steps.filter(
        number__gt=beginning.version.step, number__lte=beginning.version.step + steps
    )
    if deleted_count := count_deleted_arrays(replayed_steps):
        raise NothingToReplay(
            f"the arrays of {deleted_count} rollouts of steps {beginning.version.step + 1} to"
            f" {beginning.version.step + steps} of {run.slug} were deleted by retention: they"
            " can’t be used again"
        )
    ratings = left_out.ratings.count()
    answers = left_out.demonstrations.count()
    return Proposal(run, raters, tasks, left_out, beginning, steps, ratings, answers, rescoring)


def unfit(rescoring: Rescoring) -> str:
    """Return why nothing can be learned from a new set of rewards; "" if something can."""
    if rescoring.state != Rescoring.State.DONE:
        return (
            f"this rescoring is {rescoring.get_state_display()}: only finished rescorings can be"
            " used"
        )
    if find_first_and_last_use(rescoring)[0] is None:
        return "no step used any of the groups of this rescoring"
    return ""


def create_replay(proposal: Proposal, slug: str, title: str, by: User | None = None) -> Run:
    """Create the run, not started; its data is copied when its trainer first opens it.

    Raises NothingToReplay, ConfigError.
    """
    run = proposal.run
    version = proposal.beginning.version
    replay = Replay(
        run=run.slug,
        version=version.version,
        last_step=proposal.last_step,
        without_raters=proposal.raters,
        without_tasks=proposal.tasks,
        rescoring=proposal.rescoring and proposal.rescoring.pk,
    )
    policy = find_or_make_policy(run, version, replay.weights, by)
    plan = parse_config(
        {**run.settings.model_dump(mode="json"), **_changes(run, policy, proposal, replay)}
    )
    try:
        with transaction.atomic():
            return Run.create(project=run.project, slug=slug, title=title, plan=plan, owner=by)
    except IntegrityError:
        raise NothingToReplay(f"a run {slug!r} already exists; choose another name") from None


def _changes(run: Run, policy: Policy, proposal: Proposal, replay: Replay) -> dict:
    """Return the differences from the recorded run's configuration."""
    algorithm = run.settings.algorithm.model_dump(mode="json")
    if run.settings.algorithm.reference.kind == "base" and policy.pk != run.policy_id:
        # The reference stays the base of the recorded run, not the first version of the replay.
        algorithm["reference"] = {"kind": "policy", "policy": run.policy.slug}
    rewards = {"rewards": proposal.rescoring.rewards} if proposal.rescoring else {}
    # Sampling settings do not matter to a replay, except for which parts are learned from.
    sampling = {
        **run.settings.sampling.model_dump(mode="json"),
        "repeats": None,
        "slice_tokens": None,
        "time_s": None,
    }
    return {
        **rewards,
        "policy": policy.slug,
        "steps": proposal.steps,
        "replay": replay.model_dump(mode="json"),
        "algorithm": algorithm,
        "max_staleness": max(run.settings.max_staleness, _greatest_staleness(run)),
        "over_rollout": None,
        "sampling": sampling,
    }


def _greatest_staleness(run: Run) -> int:
    """Return the greatest staleness in the recorded batches; their bound may have been another."""
    items = StepItem.objects.filter(
        step__run=run, step__state=TrainStep.State.COMMITTED, experience__kind="usual"
    )
    return (
        items.aggregate(max_staleness=Max(F("step__version") - F("experience__weight_version")))[
            "max_staleness"
        ]
        or 0
    )


def find_or_make_policy(run: Run, version: WeightVersion, weights: str, by: User | None) -> Policy:
    """Return the policy with these weights, created from them if they are no version 0.

    Raises NothingToReplay.
    """
    try:
        return promoted(version, by)
    except NotCopied as error:
        raise NothingToReplay(
            f"version {version.version} can’t be used as a start: {public_text(error)}"
        ) from None
