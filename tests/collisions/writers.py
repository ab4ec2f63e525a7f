"""Everything that writes to a live run, each as one function of the run: what its worker does.

Where a worker or a user does several things, a call does one of them, drawn at random: calls are
short, so that many calls of two writers collide.
"""

import random
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from django.db import IntegrityError
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.alerts.evaluating import _write
from apps.alerts.models import Alert
from apps.alerts.rules import AlertFinding
from apps.buffer.models import commit_step, plan_step
from apps.buffer.retention import release_arrays
from apps.feedback import interventions, known_items, leaving_out
from apps.feedback.claiming import claim, take_again
from apps.feedback.forms import BadAnswer
from apps.feedback.models import Item, Rating, Suspicion
from apps.feedback.ratings.adjudication import adjudicate
from apps.feedback.ratings.answers import Refused
from apps.feedback.ratings.items import Submission, submit
from apps.feedback.ratings.stars import Stars, give_many
from apps.feedback.ratings.withdrawal import withdraw_decision
from apps.feedback.suspicions import acting
from apps.feedback.suspicions.raising import _keep
from apps.pipelines.again import refine_again
from apps.pipelines.refining import refine
from apps.rewards.hacking.rows import Finding, JudgedReplies
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, open_questions
from apps.rollouts.models import Group, Outcome, Rollout
from apps.rollouts.payload import Tokens
from apps.runs.labelling import tag, untag
from apps.runs.models import Metric, NotPossible, Run, StaleFence, Usage, WeightVersion
from apps.runs.retention import Retention
from workers.coordinator import sweep_leases as sweep_once
from workers.scorer import _record

TOKENS = Tokens((1, 2, 3), (49, 50, 51), (-0.5,) * 3, (1,) * 3, ((0, 0),))
NOTHING_SEEN = JudgedReplies(rows=[])


@dataclass(frozen=True)
class Scene:
    """The run, by its id, and two users with all rights in it."""

    run_id: int
    owner: User
    rater: User

    @property
    def run(self) -> Run:
        return Run.objects.select_related("project", "topic").get(pk=self.run_id)

    def resume(self) -> None:
        """Resume a paused run, so that the other writers have work."""
        with suppress(NotPossible):
            self.run.resume(self.owner)

    def some_groups(self, most: int, *states: str) -> list[int]:
        """Return ids of the newest groups, in random order."""
        found = Group.objects.filter(run=self.run_id, state__in=states).order_by("-pk")
        ids = list(found.values_list("pk", flat=True)[:most])
        return random.sample(ids, len(ids))


def sweep(scene: Scene) -> None:
    """Let some leases and deadlines expire."""
    over = {"lease_until": Now() - timedelta(seconds=1)}
    Group.objects.filter(pk__in=scene.some_groups(1, "sampling")).update(lease_owner="gone", **over)
    waiting = Group.objects.filter(pk__in=scene.some_groups(1, "waiting"))
    waiting.update(deadline_at=Now() - timedelta(seconds=1))
    sweep_once()


def watch(scene: Scene) -> None:
    suspicion = Suspicion.objects.filter(run=scene.run_id, state="open").last()
    if suspicion is None or random.random() < 0.5:
        _keep(scene.run, "repetition", Finding("words", {}), NOTHING_SEEN)
        return
    with suppress(NotPossible):
        acting.dismiss(suspicion, scene.owner, "it is nothing")


def alert(scene: Scene) -> None:
    """Open or close an alert by a rule, or acknowledge the open ones as a user.

    Of two that open the same alert one fails: in the product only one job checks at a time.
    """
    run = scene.run
    place = ("no_progress", "")
    known = list(Alert.objects.open().filter(run=run))
    opened = {(one.rule, one.key): one for one in known}
    found = {place: AlertFinding("words", "todo", run.created_at, 1.0)}
    chance = random.random()
    if not known:
        with suppress(IntegrityError):
            _write(run, opened, found, found, {}, [place] if chance < 0.5 else [])
        scene.resume()
    elif chance < 0.5:
        _write(run, opened, {}, {}, dict.fromkeys(known, "gone"), [])
    else:
        with suppress(NotPossible):
            known[0].acknowledge(scene.owner, None)


def explore(scene: Scene) -> None:
    worker = f"explorer-{random.random()}"
    opened = Group.open(scene.run, worker, 60, 2, 0)
    claimed = Group.objects.claim(Group.State.SAMPLING, worker, 60, 1)
    groups = {group.pk: group.claimed for group in [*opened[:1], *claimed]}
    Group.objects.renew(groups.values(), 60)
    rollouts = Rollout.objects.filter(group__in=groups, state="sampling").order_by("-pk")
    ended = [Outcome(rollout.pk, TOKENS, "123", "stop") for rollout in rollouts]
    Group.finish_rollouts(groups, ended)
    Group.objects.release(group.claimed for group in opened[1:])


def score(scene: Scene) -> None:
    claimed = Group.objects.claim(Group.State.SCORING, "scorer", 60, 3)
    questions = open_questions(claimed)
    _record(
        claimed, [AnsweredQuestion(one, [_verdict() for _ in one.rollout_ids]) for one in questions]
    )


def _verdict() -> Verdict:
    return Verdict(random.random(), "test")


def refine_some(scene: Scene) -> None:
    chance = random.random()
    if chance < 0.8:
        refine(Group.objects.claim(Group.State.JUDGED, "refiner", 60, 4))
    elif chance < 0.9:
        with suppress(NotPossible):
            refine_again(scene.run, scene.owner)
    else:
        for group in Group.objects.claim(Group.State.JUDGED, "refiner", 60, 1):
            with suppress(StaleFence):
                group.fail("its operator broke")


def train(scene: Scene) -> None:
    """Plan and commit an update as the trainer does, without weights.

    Two with one fence may make the same version: one fails.
    """
    run = scene.run
    with suppress(StaleFence, IntegrityError):
        if not (step := plan_step(run, run.fence)):
            return
        with run.fenced(run.fence) as locked:
            Usage.add(run.pk, "trainer", {"trainer.cpu_s": 1.0})
            commit_step(locked, step, run.fence)
            Metric.record(locked, step.number, {"reward_mean": 0.5, "tokens_per_s": 1.0})
            locked.note_checkpoint(step.number, run.checkpoint_requested_at)
            locked.topic.record("step_committed", step=step.number)
        version = WeightVersion(run=run, version=step.number, folder="", fingerprint="0" * 16)
        version.save()
        with run.fenced(run.fence):
            version.verify()
            version.publish()


def rate(scene: Scene) -> None:
    random.choice([decide, decide, take_back, give_stars])(scene)


def decide(scene: Scene) -> None:
    slots = [held.slot_id for held in claim(scene.rater, scene.run_id, 2)]
    for held in take_again(scene.rater, slots):
        said = Submission(uuid.uuid4(), held.fence, held.version, "stars", {"stars": 4})
        with suppress(Refused, BadAnswer):
            submit(scene.rater, held.slot_id, said)


def take_back(scene: Scene) -> None:
    last = Rating.objects.filter(rater=scene.rater, item__isnull=False, is_withdrawn=False).last()
    if last:
        with suppress(Refused):
            withdraw_decision(scene.rater, last.client_uuid, uuid.uuid4())


def give_stars(scene: Scene) -> None:
    groups = scene.some_groups(2, "scoring", "waiting", "judged")
    rollouts = list(Rollout.objects.filter(group__in=groups).values_list("pk", flat=True))
    give_many(scene.rater, [Stars(pk, 5, uuid.uuid4()) for pk in rollouts])


def correct(scene: Scene) -> None:
    random.choice([edit, settle_dispute, retire_known])(scene)


def edit(scene: Scene) -> None:
    """Edit a rollout that is being sampled, as a user."""
    running = Rollout.objects.filter(run=scene.run_id, state="sampling").order_by("-pk").first()
    if running:
        with suppress(interventions.CannotAct):
            interventions.request_intervention(
                scene.owner, running.pk, "edit", "better", uuid.uuid4()
            )


def settle_dispute(scene: Scene) -> None:
    """Adjudicate an item, and turn its answer into a gold item."""
    items = Item.objects.filter(run=scene.run_id, purpose="reward").order_by("-pk")
    if item := items[random.randrange(5) :].first():
        with suppress(BadAnswer, Refused):
            adjudicate(item.pk, scene.owner, "stars", {"stars": 2}, uuid.uuid4(), make_gold=True)


def retire_known(scene: Scene) -> None:
    for known in Item.objects.filter(run=scene.run_id, purpose="gold", state="open")[:1]:
        known_items.retire_known_item(known, scene.owner)


def pause(scene: Scene) -> None:
    """Act on the run itself, as a user."""
    run = scene.run
    owner = scene.owner
    temperature = random.choice([0.5, 0.7, 0.9])
    acts = [
        lambda: run.pause(owner, "to look"),
        lambda: run.change_config(owner, sampling={"temperature": temperature}),
        lambda: random.choice([tag, untag])([run], ["seen"], owner),
        lambda: run.ask_checkpoint(owner),
    ]
    with suppress(NotPossible):
        random.choice(acts)()
    scene.resume()


def delete(scene: Scene) -> None:
    """Exclude groups as a user: selected ones, or those of a suspicion."""
    groups = scene.some_groups(2, *Group.OPEN, Group.State.ADMITTED)
    suspicion = Suspicion.objects.filter(run=scene.run_id, state="open").last()
    with suppress(NotPossible):
        if suspicion is None or random.random() < 0.5:
            leaving_out.drop_groups(scene.run, groups, scene.owner, "spam")
            return
        evidence = list(Rollout.objects.filter(group__in=groups).values_list("pk", flat=True))
        Suspicion.objects.filter(pk=suspicion.pk).update(evidence=evidence)
        acting.drop_evidence(suspicion, scene.owner, "it pleads")


def retain(scene: Scene) -> None:
    closed = scene.some_groups(4, *Group.CLOSED)
    Group.objects.filter(pk__in=sorted(closed)[:1]).update(closed_at=Now() - timedelta(days=9))
    release_arrays(scene.run, Retention(days=1), closed)


WRITERS: dict[str, Callable[[Scene], None]] = {
    "sweep": sweep,
    "watch": watch,
    "alert": alert,
    "explorer": explore,
    "scorer": score,
    "refiner": refine_some,
    "trainer": train,
    "rating": rate,
    "correction": correct,
    "pause": pause,
    "delete": delete,
    "retention": retain,
}
