"""Nothing lost, nothing doubled: checks over the rows, each a question whose right answer is "none".

They hold at every moment of a healthy installation, also in the middle of a run and right after a crash. Each check
reads one moment of the database, so that what happens while it counts does not look like a loss.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, Exists, F, FloatField, Max, OuterRef, Q
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Now

from apps.alerts.ledger import alerts_left_their_history, totals_are_sums_of_their_hours, what_was_sampled_is_counted
from apps.buffer.ledger import (
    USES_ALLOWED,
    offspring_say_what_their_parents_said,
    seeds_are_what_they_were_taken_from,
    what_was_let_go_was_not_needed,
    what_was_taken_again_was_allowed,
)
from apps.buffer.models import Experience, Recorded, Seed, Snapshot, StepItem
from apps.environments.ledger import (
    episodes_end_with_their_rollouts,
    episodes_end_with_their_sessions,
    what_was_played_was_rewarded_once,
)
from apps.environments.models import Episode
from apps.feedback.arena.ledger import arenas_count_their_votes, votes_are_about_answers_of_their_arenas
from apps.feedback.models import LESSONS, STARS, Preference, Rating, Slot
from apps.pipelines.ledger import what_operators_left_out_is_on_record
from apps.pipelines.models import OwnExpert
from apps.policies.manifest import DamagedWeights, verify
from apps.rewards.combining import PEOPLE
from apps.rewards.models import Reward
from apps.rewards.rescoring.ledger import sets_made_again_are_whole
from apps.rollouts.ledger import (
    evaluations_ask_each_task_once,
    runs_draw_from_their_tasksets,
    tasks_are_quarantined_for_their_failures,
)
from apps.rollouts.models import Group, Rollout
from apps.rollouts.partial import PartialRollout
from apps.runs.changing import UPDATES
from apps.runs.kept_weights import branches_begin_with_what_they_name, kept_weights_are_there
from apps.runs.ledger import runs_show_their_newest_figures
from apps.runs.models import Acknowledgement, Run, TrainStep, WeightVersion
from apps.runs.spans_ledger import spans_say_what_their_points_say
from apps.streaming.models import Event, Topic
from apps.tasksets.ledger import tasks_made_of_others_name_them, tasksets_are_what_they_were

PROBE_GAP_ALLOWED = 0.05
SHOWN = 20
NATURAL_KEYS = (
    "one_group_per_draw", "one_rollout_per_sample", "one_reward_per_machine", "one_current_reward_per_person",
    "one_rating_per_client_uuid", "one_experience_per_rollout_and_kind", "once_per_step", "one_experience_per_position",
    "one_step_per_number", "one_weight_version_per_number", "one_event_per_sequence", "one_word_per_engine",
    "one_expert_group_per_task", "one_expert_answer_per_run", "one_demonstration_per_author_and_key",
    "one_preference_per_author_and_key", "one_thumb_per_author_and_key", "one_lesson_per_place", "one_place_per_lesson",
    "one_lesson_per_position", "what_was_sampled_has_a_reward", "one_recorded_row_per_place",
    "one_taskset_per_version", "one_share_per_taskset_of_a_run",
    "a_group_is_rescored_once", "a_rollout_is_rescored_once", "one_rescored_reward_per_scorer",
    "one_own_expert_per_number", "a_group_seeds_a_run_once", "a_task_is_left_out_once", "one_offspring_per_key",
    "a_task_is_younger_than_its_parent",
    "one_episode_per_attempt", "one_open_episode_per_rollout", "one_episode_per_key",
    "one_outside_episode_per_key", "one_turn_per_number",
    "turn_rewards_are_finite", "rewards_are_finite", "experiences_are_finite", "metrics_are_finite",
    "one_amount_per_worker_and_hour", "amounts_are_finite", "one_open_alert_per_key", "one_delivery_per_channel_and_entry",
    "one_span_per_place", "one_vote_per_client_uuid", "one_contestant_per_evaluation", "one_pairing_per_two_contestants",
)  # fmt: skip


@dataclass(frozen=True)
class Check:
    """`find` yields one sentence per violation."""

    name: str
    find: Callable[[], Iterator[str]]


def acknowledged_ratings_are_stored(client_uuids: set[str]) -> Callable[[], Iterator[str]]:
    """Against a client's own ledger of acknowledged ratings."""

    def find() -> Iterator[str]:
        stored = {str(key) for key in Rating.objects.filter(client_uuid__in=client_uuids).values_list("client_uuid", flat=True)}
        yield from (f"rating {key} was acknowledged and is not stored" for key in sorted(client_uuids - stored))

    return find


def natural_keys_are_enforced() -> Iterator[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT conname FROM pg_constraint UNION SELECT relname FROM pg_class WHERE relkind = 'i'")
        present = {name for (name,) in cursor.fetchall()}
    yield from (f"the constraint {name} is missing: run `manage.py migrate`" for name in NATURAL_KEYS if name not in present)


def leases_do_not_outlive_their_workers() -> Iterator[str]:
    """In live runs an expired lease is taken over within two lease times, or something has stopped looking."""
    long_ago = Now() - timedelta(seconds=2 * settings.LEASE_SECONDS)
    for group in Group.objects.filter(state__in=Group.OPEN, run__state=Run.State.RUNNING, lease_until__lt=long_ago):
        yield f"{group}: {group.state}, leased to {group.lease_owner} until {group.lease_until}, and nobody took it over"


def every_group_stands_somewhere() -> Iterator[str]:
    """issued = open + admitted + dropped, and the run's counters say the same."""
    for run in Run.objects.annotate(issued=Count("groups__draw_index"), last=Max("groups__draw_index")):
        if run.issued != run.groups_opened or run.issued != (0 if run.last is None else run.last + 1):
            yield f"{run}: {run.groups_opened} groups opened by the counter, {run.issued} rows, last draw {run.last}"
        stale = Experience.objects.usual().filter(run=run, state=Experience.State.DROPPED).values("group").distinct().count()
        dropped = run.groups.filter(state=Group.State.DROPPED).count() + stale
        if dropped != run.groups_dropped:
            yield f"{run}: {run.groups_dropped} groups dropped by the counter, {dropped} by the rows"
        placed = {where: count for where, count in group_ledger(run).items() if where != "issued"}
        if sum(placed.values()) != run.issued:
            yield f"{run}: {run.issued} groups issued, {sum(placed.values())} stand somewhere: {placed}"
    for group in Group.objects.annotate(n=Count("rollouts", filter=Q(rollouts__origin=Rollout.Origin.POLICY))).exclude(n=F("size")):
        yield f"{group}: {group.n} rollouts for a size of {group.size}"
    for group in Group.objects.filter(state=Group.State.ADMITTED, experiences=None):
        yield f"{group}: admitted without an experience"


def trained_means_committed_once() -> Iterator[str]:
    """An experience is trained by committed steps alone, a usual one as often as its run allows; steps leave no gap."""
    counted = Experience.objects.annotate(commits=Count("step_items", filter=Q(step_items__step__state=TrainStep.State.COMMITTED)))
    for experience in counted.exclude(commits=F("uses"))[:SHOWN]:
        yield f"{experience}: {experience.uses} uses, in {experience.commits} committed steps"
    often = counted.usual().annotate(allowed=USES_ALLOWED)
    for experience in often.filter(Q(uses__gt=F("allowed")) | Q(state=Experience.State.TRAINED, uses=0))[:SHOWN]:
        yield f"{experience}: {experience.state} with {experience.uses} uses"
    claimed = Experience.objects.filter(state=Experience.State.CLAIMED).exclude(step_items__step__state=TrainStep.State.PLANNED)
    yield from (f"{experience}: claimed, in no planned step" for experience in claimed[:SHOWN])
    trained = Q(experiences__state=Experience.State.TRAINED)
    for run in Run.objects.annotate(n=Count("experiences", filter=trained)).exclude(n=F("experiences_trained")):
        yield f"{run}: {run.experiences_trained} experiences trained by the counter, {run.n} by the rows"
    for run in Run.objects.annotate(
        n=Count("steps", filter=Q(steps__state=TrainStep.State.COMMITTED)),
        last=Max("steps__number", filter=Q(steps__state=TrainStep.State.COMMITTED)),
    ):
        if (run.n, run.last or 0) != (run.step, run.step):
            yield f"{run}: at step {run.step} with {run.n} committed steps, the last being {run.last}"


def updates_say_what_they_are_made_with() -> Iterator[str]:
    """Or the next trainer could not make them again; runs that had ended before it was recorded are not trained any more."""
    silent = TrainStep.objects.exclude(run__state__in=Run.ENDED).exclude(knobs__has_keys=list(UPDATES))
    for step in silent.select_related("run")[:SHOWN]:
        yield f"{step}: its record lacks what it is made with, so that it cannot be made again: run `manage.py migrate`"


def nothing_stale_or_unjudged_was_trained() -> Iterator[str]:
    items = StepItem.objects.filter(step__state=TrainStep.State.COMMITTED, experience__kind=Experience.Kind.USUAL)
    items = items.select_related("step__run", "experience")
    for run in Run.objects.filter(step__gt=0):
        late = items.filter(step__run=run, experience__weight_version__lt=F("step__version") - _loosest_bound(run))
        yield from (
            f"{run}: step {i.step.number} trained version {i.experience.weight_version} at version {i.step.version}"
            for i in late[:SHOWN]
        )
    unjudged = items.exclude(experience__rollout__rewards__value__isnull=False)
    yield from (f"{item.experience}: trained without a reward" for item in unjudged[:SHOWN])


def what_was_answered_only_was_not_learned_from() -> Iterator[str]:
    """Beyond its bound a run that serves answers, and admits nothing of that."""
    admitted = Group.objects.filter(Q(state=Group.State.ADMITTED) | Q(experiences__isnull=False), answer_only=True).distinct()
    yield from (f"{group}: answered only, and admitted" for group in admitted[:SHOWN])


def what_is_set_aside_is_still_being_sampled() -> Iterator[str]:
    rows = PartialRollout.objects.exclude(
        rollout__state=Rollout.State.SAMPLING, rollout__group__state=Group.State.SAMPLING
    ).select_related("rollout__group")
    yield from (f"{row}, and it is {row.rollout.state} in a group that is {row.rollout.group.state}" for row in rows[:SHOWN])


def _loosest_bound(run: Run) -> int:
    """The largest `max_staleness` the run ever had: it may be changed while the run is live."""
    changes = run.topic.events.filter(kind="config_changed", payload__before__has_key="max_staleness")
    return max([run.settings.max_staleness, *changes.values_list("payload__before__max_staleness", flat=True)])


def experts_are_demonstrations() -> Iterator[str]:
    """Every expert's rollout is the demonstration it was made from, in one experience that no engine sampled."""
    spoken = Rollout.objects.filter(origin=Rollout.Origin.EXPERT)
    yield from (f"{rollout}: an expert's, of no demonstration" for rollout in spoken.filter(expert_answer=None)[:SHOWN])
    for rollout in spoken.exclude(text=F("expert_answer__demonstration__answer"))[:SHOWN]:
        yield f"{rollout}: says something else than its demonstration"
    learned = Count("experiences", filter=Q(experiences__kind=Experience.Kind.EXPERT))
    yield from (f"{r}: {r.n} expert experiences instead of one" for r in spoken.annotate(n=learned).exclude(n=1)[:SHOWN])


def expert_rows_name_their_parents() -> Iterator[str]:
    """A row that an operator made of the policy's answer stands beside what that answer itself teaches."""
    made = Experience.objects.expert().filter(rollout__origin=Rollout.Origin.POLICY)
    yield from (f"{row}: an expert's, of nobody who said it" for row in made.filter(rollout__own_expert=None)[:SHOWN])
    said = Experience.objects.usual().filter(rollout=OuterRef("rollout"))
    yield from (f"{row}: made of an answer that was not admitted" for row in made.filter(~Exists(said))[:SHOWN])
    rows = OwnExpert.objects.filter(~Exists(made.filter(rollout=OuterRef("rollout"))))
    yield from (f"{row.rollout}: made an expert's, and there is no such row" for row in rows.select_related("rollout")[:SHOWN])


def pairs_are_what_their_rollouts_said() -> Iterator[str]:
    for half in ("chosen", "rejected"):
        known = Preference.objects.exclude(**{f"{half}_rollout": None})
        for pair in known.exclude(**{half: F(f"{half}_rollout__text")})[:SHOWN]:
            yield f"{pair}: the {half} answer is not what its rollout says"


def snapshots_are_whole() -> Iterator[str]:
    """As many lessons as were frozen, all of them there, and as many in each step as its run asks for."""
    for snapshot in Snapshot.objects.select_related("run").annotate(n=Count("items"), last=Max("items__position")):
        if (snapshot.n, snapshot.last) != (snapshot.size, snapshot.size - 1):
            yield f"{snapshot}: {snapshot.n} items, the last at {snapshot.last}"
        there = LESSONS[snapshot.source].objects.filter(pk__in=snapshot.items.values("lesson")).count()
        if there != snapshot.n:
            yield f"{snapshot}: {snapshot.n - there} of its lessons are not there any more"
        steps = snapshot.run.steps.annotate(n=Count("lessons")).exclude(n=snapshot.run.settings.snapshot.rows)
        yield from (f"{step}: {step.n} lessons in its batch" for step in steps[:SHOWN])


def published_weights_are_what_their_manifests_say() -> Iterator[str]:
    """Only verified versions are published; the newest folder of each run is read and compared to the bit."""
    published = WeightVersion.objects.filter(state__in=(WeightVersion.State.PUBLISHED, WeightVersion.State.RETIRED), version__gt=0)
    yield from (f"{v}: published, never verified" for v in published.filter(verified_at=None))
    doubled = published.values("run", "step").annotate(n=Count("pk")).filter(n__gt=1)
    yield from (f"run {row['run']}: {row['n']} versions published for step {row['step']}" for row in doubled)
    for run in Run.objects.filter(published_version__gt=0):
        version = run.weight_versions.get(version=run.published_version)
        try:
            if verify(Path(version.folder)).fingerprint != version.fingerprint:
                yield f"{version}: the folder's fingerprint is another"
        except (DamagedWeights, OSError) as damage:
            yield f"{version}: {damage}"


def engines_served_what_was_published() -> Iterator[str]:
    words = Acknowledgement.objects.select_related("weight_version", "worker")
    for word in words.exclude(fingerprint=F("weight_version__fingerprint"))[:SHOWN]:
        yield f"{word}: with another fingerprint"
    for word in words.filter(probe_gap__gt=PROBE_GAP_ALLOWED)[:SHOWN]:
        yield f"{word}: its logprobs are {word.probe_gap:.3f} off"
    sampled = Rollout.objects.filter(state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY)
    copied = Recorded.objects.filter(group=OuterRef("group"))  # another run's engines sampled what is replayed
    imported = Episode.objects.filter(rollout=OuterRef("pk")).exclude(origin={})  # engines elsewhere sampled what came in a file
    seeded = Seed.objects.filter(group=OuterRef("group"))  # so did those of another run here
    for row in sampled.filter(~Exists(copied), ~Exists(imported), ~Exists(seeded)).values("run", "last_version").distinct():
        if not words.filter(weight_version__run=row["run"], weight_version__version=row["last_version"]).exists():
            yield f"run {row['run']}: rollouts sampled by version {row['last_version']}, which no engine acknowledged"


def replays_are_what_was_recorded() -> Iterator[str]:
    """Every copied rollout says what the original says, and an update takes what it was recorded to take."""
    same = {name: OuterRef(name) for name in ("origin", "sample_index", "text")}
    original = Rollout.objects.filter(group=OuterRef("group__recorded__of"), **same)
    copies = Rollout.objects.filter(group__recorded__expert=None, group__recorded__isnull=False, origin=Rollout.Origin.POLICY)
    yield from (f"{rollout}: says something else than what it replays" for rollout in copies.filter(~Exists(original))[:SHOWN])
    taken = StepItem.objects.filter(experience__kind=Experience.Kind.USUAL, step__run__recorded__isnull=False).distinct()
    wrong = taken.exclude(experience__group__recorded__step=F("step__number")).select_related("step__run", "experience")
    yield from (f"{item.step.run}: step {item.step.number} took {item.experience}, recorded for another" for item in wrong[:SHOWN])


def rewards_of_people_are_their_ratings() -> Iterator[str]:
    human = Reward.objects.filter(source=Reward.Source.HUMAN).exclude(by=None)
    yield from (f"reward {reward.pk}: a person's, without a rating" for reward in human.filter(rating_reward=None)[:SHOWN])
    stars = Cast(KeyTextTransform("stars", "rating_reward__rating__answer"), FloatField())
    for reward in human.filter(scorer=STARS).exclude(value=(stars - 1.0) / 4.0)[:SHOWN]:
        yield f"reward {reward.pk}: {reward.value} for another number of stars"
    together = Reward.objects.filter(scorer=PEOPLE, by=None)
    for reward in together.exclude(details__ratings__0__isnull=False)[:SHOWN]:
        yield f"reward {reward.pk}: what people say together, without a rating that it was made of"


def nobody_is_asked_about_closed_groups() -> Iterator[str]:
    """An open slot belongs to a group that waits for people, or stands aside of its group."""
    for slot in Slot.objects.filter(state=Slot.State.OPEN, is_required=True).exclude(group__state=Group.State.WAITING)[:SHOWN]:
        yield f"{slot}: its group {slot.group_id} waits no longer"


def decisions_left_their_ratings() -> Iterator[str]:
    """A slot is done when its rater has said something about its item."""
    said = Rating.objects.filter(item=OuterRef("item"), rater=OuterRef("rater"))
    for slot in Slot.objects.filter(~Exists(said), state=Slot.State.DONE)[:SHOWN]:
        yield f"{slot}: without a rating"


def acts_left_their_events() -> Iterator[str]:
    """Event sequences have no gap, and every state a run is in was announced."""
    for topic in Topic.objects.annotate(n=Count("events"), last=Max("events__sequence")):
        if (topic.n, topic.last or 0) != (topic.sequence, topic.sequence):
            yield f"{topic}: sequence {topic.sequence}, {topic.n} events, the last {topic.last}"
    for run in Run.objects.exclude(state=Run.State.CREATED):
        last = Event.objects.filter(topic=run.topic_id, kind="state_changed").order_by("sequence").last()
        if last is None or last.payload["state"] != run.state:
            announced = last.payload["state"] if last else "none"
            yield f"{run}: is {run.state}, its last announced state is {announced}"


CHECKS = (
    Check("natural keys are enforced", natural_keys_are_enforced),
    Check("leases do not outlive their workers", leases_do_not_outlive_their_workers),
    Check("every group stands somewhere", every_group_stands_somewhere),
    Check("tasksets are what they were", tasksets_are_what_they_were),
    Check("tasks made of others name them", tasks_made_of_others_name_them),
    Check("runs draw from their tasksets", runs_draw_from_their_tasksets),
    Check("tasks are quarantined for their failures", tasks_are_quarantined_for_their_failures),
    Check("trained means committed once", trained_means_committed_once),
    Check("what was taken again was allowed", what_was_taken_again_was_allowed),
    Check("seeds are what they were taken from", seeds_are_what_they_were_taken_from),
    Check("what was let go was not needed", what_was_let_go_was_not_needed),
    Check("updates say what they are made with", updates_say_what_they_are_made_with),
    Check("nothing stale or unjudged was trained", nothing_stale_or_unjudged_was_trained),
    Check("what was answered only was not learned from", what_was_answered_only_was_not_learned_from),
    Check("what is set aside is still being sampled", what_is_set_aside_is_still_being_sampled),
    Check("experts are demonstrations", experts_are_demonstrations),
    Check("expert rows name their parents", expert_rows_name_their_parents),
    Check("offspring say what their parents said", offspring_say_what_their_parents_said),
    Check("pairs are what their rollouts said", pairs_are_what_their_rollouts_said),
    Check("what operators left out is on record", what_operators_left_out_is_on_record),
    Check("runs show their newest figures", runs_show_their_newest_figures),
    Check("snapshots are whole", snapshots_are_whole),
    Check("published weights are what their manifests say", published_weights_are_what_their_manifests_say),
    Check("engines served what was published", engines_served_what_was_published),
    Check("kept weights are there", kept_weights_are_there),
    Check("branches begin with what they name", branches_begin_with_what_they_name),
    Check("replays are what was recorded", replays_are_what_was_recorded),
    Check("sets of rewards made again are whole", sets_made_again_are_whole),
    Check("people's rewards are their ratings", rewards_of_people_are_their_ratings),
    Check("nobody is asked about closed groups", nobody_is_asked_about_closed_groups),
    Check("decisions left their ratings", decisions_left_their_ratings),
    Check("acts left their events", acts_left_their_events),
    Check("spans say what their points say", spans_say_what_their_points_say),
    Check("episodes end with their rollouts", episodes_end_with_their_rollouts),
    Check("episodes end with their sessions", episodes_end_with_their_sessions),
    Check("what was played was rewarded once", what_was_played_was_rewarded_once),
    Check("what was sampled is counted", what_was_sampled_is_counted),
    Check("totals are sums of their hours", totals_are_sums_of_their_hours),
    Check("alerts left their history", alerts_left_their_history),
    Check("evaluations ask each task once", evaluations_ask_each_task_once),
    Check("votes are about answers of their arenas", votes_are_about_answers_of_their_arenas),
    Check("arenas count their votes", arenas_count_their_votes),
)


def reconcile(acknowledged: set[str] | None = None) -> dict[str, list[str]]:
    """Every check's violations, by name; a clean ledger gives empty lists."""
    checks = (
        CHECKS
        if acknowledged is None
        else (*CHECKS, Check("acknowledged ratings are stored", acknowledged_ratings_are_stored(acknowledged)))
    )
    return {check.name: _found(check) for check in checks}


def _found(check: Check) -> list[str]:
    with one_moment():
        return list(check.find())


@contextmanager
def one_moment() -> Iterator[None]:
    """Everything read inside is of the same moment. Inside a caller's transaction, that one decides."""
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            # Reading a large version's folder takes longer than a transaction may otherwise be idle.
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        yield


def group_ledger(run: Run) -> dict[str, int]:
    """Where the run's groups are: issued = sampling + waiting + ready + claimed + trained + measured + dropped."""
    by_state = dict(run.groups.filter(draw_index__isnull=False).values_list("state").annotate(n=Count("pk")))
    # A group's experiences move together, so each group counts in one state.
    by_experience = dict(Experience.objects.usual().filter(run=run).values_list("state").annotate(n=Count("group", distinct=True)))
    return {
        "issued": sum(by_state.values()),
        "sampling": by_state.get(Group.State.SAMPLING, 0),
        "waiting": sum(by_state.get(state, 0) for state in (Group.State.SCORING, Group.State.WAITING, Group.State.JUDGED)),
        "ready": by_experience.get(Experience.State.READY, 0),
        "claimed": by_experience.get(Experience.State.CLAIMED, 0),
        "trained": by_experience.get(Experience.State.TRAINED, 0),
        "measured": by_state.get(Group.State.MEASURED, 0),
        "dropped": by_state.get(Group.State.DROPPED, 0) + by_experience.get(Experience.State.DROPPED, 0),
    }
