"""Making the run that replays: what it will be is proposed first, in numbers; nothing of the recorded run is changed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, Max

from apps.accounts.models import User
from apps.buffer.models import StepItem
from apps.feedback.models import RaterModel
from apps.feedback.rater_model.heads import KIND as SCALAR_HEAD
from apps.feedback.replaying.first_use import Beginning, beginning_of
from apps.feedback.replaying.leaving_out import LeftOut
from apps.policies.copying import NotCopied, copy_as_base
from apps.policies.models import Policy
from apps.policies.registering import register
from apps.runs.config import parse
from apps.runs.models import Run, TrainStep, WeightVersion
from apps.runs.replay import Replay

LONGEST_SLUG = 50


class NothingToReplay(ValueError):
    """No such run can be made; the message says why and what to do."""


@dataclass(frozen=True)
class Proposal:
    """What would be made: from which version, how many updates again, and how much of people's word is left out."""

    run: Run
    raters: tuple[str, ...]
    tasks: tuple[int, ...]
    left_out: LeftOut
    beginning: Beginning
    steps: int
    ratings: int
    answers: int

    @property
    def until(self) -> int:
        return self.beginning.version.step + self.steps

    @property
    def has_heads(self) -> bool:
        """Whether trained heads had learned of what is left out: the ridge, fitted without it, speaks in their place."""
        known = RaterModel.objects.filter(run=self.run, number__in=self.left_out.tainted_models, kind=SCALAR_HEAD)
        return known.exists()

    @property
    def slug(self) -> str:
        """A name that is free, and says what is left out."""
        words = [*self.raters, *(f"task-{index}" for index in self.tasks)]
        wanted = re.sub(
            r"[^a-zA-Z0-9_-]+", "-", f"{self.run.slug}-without-{'-'.join(words)}" if words else f"{self.run.slug}-again"
        )
        return _free_name(wanted[:LONGEST_SLUG].strip("-"), self.run.project.runs)

    @property
    def title(self) -> str:
        words = [*self.raters, *(f"task {index}" for index in self.tasks)]
        return f"{self.run.title}, {'without ' + ', '.join(words) if words else 'made again'}"[:200]


def propose(run: Run, raters: Sequence[str] = (), tasks: Sequence[int] = ()) -> Proposal:
    """What a replay without these people (usernames) and tasks (indexes) would be. Raises NothingToReplay."""
    if run.settings.algorithm.learns_from_lessons:
        raise NothingToReplay(f"{run.slug} learns from a snapshot of lessons: create a run with another `snapshot` section instead")
    if not run.step:
        raise NothingToReplay(f"{run.slug} has made no update yet; there is nothing recorded")
    raters, tasks = tuple(dict.fromkeys(raters)), tuple(dict.fromkeys(tasks))
    try:
        left_out = LeftOut.of(run, raters, tasks)
    except LookupError as unknown:
        raise NothingToReplay(str(unknown)) from None
    beginning = beginning_of(run, left_out)
    if (raters or tasks) and beginning.first_use is None:
        names = ", ".join([*raters, *(f"task {index}" for index in tasks)])
        raise NothingToReplay(f"nothing of {names} has shaped the weights of {run.slug}: a run without it would be the same")
    steps = run.step - beginning.version.step
    return Proposal(run, raters, tasks, left_out, beginning, steps, left_out.ratings.count(), left_out.demonstrations.count())


def create(proposal: Proposal, slug: str, title: str, by: User | None = None) -> Run:
    """The new run, not started; its data comes over when its trainer first opens it. Raises NothingToReplay, ConfigError."""
    run, version = proposal.run, proposal.beginning.version
    replay = Replay(
        run=run.slug, version=version.version, until=proposal.until, without_raters=proposal.raters, without_tasks=proposal.tasks
    )
    policy = policy_of(run, version, replay.weights, by)
    plan = parse({**run.settings.model_dump(mode="json"), **_changes(run, policy, proposal, replay)})
    try:
        with transaction.atomic():
            return Run.create(project=run.project, slug=slug, title=title, plan=plan, owner=by)
    except IntegrityError:
        raise NothingToReplay(f"a run {slug!r} is there already; choose another name") from None


def _changes(run: Run, policy: Policy, proposal: Proposal, replay: Replay) -> dict:
    """What differs from the recorded run's configuration."""
    algorithm = run.settings.algorithm.model_dump(mode="json")
    if run.settings.algorithm.reference.kind == "base" and policy.pk != run.policy_id:
        # What was measured against stays what it was: the base of the recorded run, not the version begun with.
        algorithm["reference"] = {"kind": "policy", "policy": run.policy.slug}
    return {
        "policy": policy.slug, "steps": proposal.steps, "replay": replay.model_dump(mode="json"), "algorithm": algorithm,
        "max_staleness": max(run.settings.max_staleness, _most_stale(run)),
    }  # fmt: skip


def _most_stale(run: Run) -> int:
    """By how many versions the recorded batches were stale at most: the bound may have been another one then."""
    items = StepItem.objects.filter(step__run=run, step__state=TrainStep.State.COMMITTED, experience__kind="usual")
    return items.aggregate(most=Max(F("step__version") - F("experience__weight_version")))["most"] or 0


def policy_of(run: Run, version: WeightVersion, weights: str, by: User | None) -> Policy:
    """The policy that these weights are, made of them where they are no version 0. Raises NothingToReplay."""
    if version.version == 0:
        return run.policy
    known = run.project.policies.filter(source=weights).first()
    if known is not None and Path(known.folder).is_dir():
        return known
    slug = _free_name(f"{run.slug[: LONGEST_SLUG - 8]}-v{version.version}", run.project.policies)
    folder = settings.WEIGHTS_ROOT / "policies" / f"{run.project.slug}-{slug}"
    try:
        copy_as_base(Path(version.folder), folder)
        return register(run.project, slug, folder, weights, f"{run.title}, version {version.version}"[:200], by)
    except NotCopied as error:
        raise NothingToReplay(f"version {version.version} cannot be begun with: {error}") from None


def _free_name(wanted: str, among) -> str:
    taken = set(among.filter(slug__startswith=wanted[: LONGEST_SLUG - 4]).values_list("slug", flat=True))
    tried = (wanted, *(f"{wanted[: LONGEST_SLUG - 4]}-{n}" for n in range(2, 1000)))
    return next(name for name in tried if name not in taken)
