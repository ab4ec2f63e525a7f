"""Invariants of the database: nothing is lost or doubled; each check yields its violations.

They hold at every moment of a healthy installation, also in the middle of a run and right after a
crash. Each check reads one snapshot of the database, so that concurrent changes do not look like a
loss.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import connection, transaction
from django.db.models import Count, Max

from apps.alerts.ledger import (
    alerts_have_a_history,
    sampled_tokens_are_counted,
    usage_totals_match_their_hours,
)
from apps.buffer.ledger import (
    deleted_arrays_are_not_needed,
    derived_rollouts_match_their_parents,
    experience_replay_stays_within_its_limits,
    seeds_match_their_originals,
)
from apps.dashboard.reconciliation.groups import (
    answer_only_groups_are_not_trained_on,
    expired_leases_are_taken_over,
    groups_match_their_counters,
    partial_rollouts_are_being_sampled,
)
from apps.dashboard.reconciliation.lessons import (
    expert_rollouts_match_their_demonstrations,
    expert_rows_name_their_parents,
    preferences_match_their_rollouts,
    snapshots_are_complete,
)
from apps.dashboard.reconciliation.people import (
    acknowledged_ratings_are_stored,
    finished_slots_have_ratings,
    nobody_is_asked_about_closed_groups,
    rewards_of_people_match_their_ratings,
)
from apps.dashboard.reconciliation.training import (
    replays_match_the_recorded_run,
    steps_record_their_settings,
    trained_experiences_are_fresh_and_rewarded,
    trained_experiences_belong_to_committed_steps,
)
from apps.dashboard.reconciliation.weights import (
    engines_served_what_was_published,
    published_weights_match_their_manifests,
)
from apps.environments.ledger import (
    episodes_are_rewarded_once,
    episodes_end_with_their_rollouts,
    episodes_end_with_their_sessions,
)
from apps.evaluation.arena.ledger import (
    arenas_count_their_votes,
    votes_refer_to_answers_of_their_arena,
)
from apps.pipelines.ledger import operator_counts_match_the_rows
from apps.rewards.rescoring.ledger import rescorings_are_complete
from apps.rollouts.ledger import (
    evaluations_ask_each_task_once,
    runs_sample_from_their_tasksets,
    tasks_are_quarantined_for_their_failures,
)
from apps.runs.kept_weights import branches_start_from_the_named_version, kept_weights_are_there
from apps.runs.ledger import runs_show_their_latest_metrics
from apps.runs.models import Run
from apps.runs.spans_ledger import metric_spans_match_their_points
from apps.streaming.models import Event, Topic
from apps.tasksets.ledger import derived_tasks_name_their_source, tasksets_are_unchanged

NATURAL_KEYS = (
    "one_group_per_draw",
    "one_rollout_per_sample",
    "one_reward_per_machine",
    "one_current_reward_per_person",
    "one_rating_per_client_uuid",
    "one_experience_per_rollout_and_kind",
    "once_per_step",
    "one_experience_per_position",
    "one_step_per_number",
    "one_weight_version_per_number",
    "one_event_per_sequence",
    "one_word_per_engine",
    "one_expert_group_per_task",
    "one_expert_answer_per_run",
    "one_demonstration_per_author_and_key",
    "one_preference_per_author_and_key",
    "one_thumb_per_author_and_key",
    "one_lesson_per_place",
    "one_place_per_lesson",
    "one_lesson_per_position",
    "what_was_sampled_has_a_reward",
    "one_recorded_row_per_place",
    "one_taskset_per_version",
    "one_share_per_taskset_of_a_run",
    "a_group_is_rescored_once",
    "a_rollout_is_rescored_once",
    "one_rescored_reward_per_scorer",
    "one_own_expert_per_number",
    "a_group_seeds_a_run_once",
    "a_task_is_left_out_once",
    "one_offspring_per_key",
    "a_task_is_younger_than_its_parent",
    "one_episode_per_attempt",
    "one_open_episode_per_rollout",
    "one_episode_per_key",
    "one_outside_episode_per_key",
    "one_turn_per_number",
    "turn_rewards_are_finite",
    "rewards_are_finite",
    "experiences_are_finite",
    "metrics_are_finite",
    "one_amount_per_worker_and_hour",
    "amounts_are_finite",
    "one_open_alert_per_key",
    "one_delivery_per_channel_and_entry",
    "one_span_per_place",
    "one_vote_per_client_uuid",
    "one_contestant_per_evaluation",
    "one_pairing_per_two_contestants",
)


@dataclass(frozen=True)
class Check:
    """A named check; `find` yields one sentence per violation."""

    name: str
    find: Callable[[], Iterator[str]]


def unique_constraints_exist() -> Iterator[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname FROM pg_constraint UNION SELECT relname FROM pg_class WHERE relkind"
            " = 'i'"
        )
        present = {name for (name,) in cursor.fetchall()}
    yield from (
        f"the constraint {name} is missing: run `manage.py migrate`"
        for name in NATURAL_KEYS
        if name not in present
    )


def changes_have_events() -> Iterator[str]:
    """Yield gaps in event sequences, and run states that were not announced."""
    for topic in Topic.objects.exclude(run__state=Run.State.DELETING).annotate(
        n=Count("events"), last=Max("events__sequence")
    ):
        if (topic.n, topic.last or 0) != (topic.sequence, topic.sequence):
            yield (
                f"{topic}: the sequence is at {topic.sequence}, but there are {topic.n} "
                f"events, the last with number {topic.last}"
            )
    for run in Run.objects.kept().exclude(state=Run.State.CREATED):
        last = (
            Event.objects.filter(topic=run.topic_id, kind="state_changed")
            .order_by("sequence")
            .last()
        )
        if last is None or last.payload["state"] != run.state:
            announced = last.payload["state"] if last else "none"
            yield f"{run}: is {run.state}, but the last announced state is {announced}"


CHECKS = (
    Check("unique constraints exist", unique_constraints_exist),
    Check("expired leases are taken over", expired_leases_are_taken_over),
    Check("groups match their counters", groups_match_their_counters),
    Check("tasksets are unchanged", tasksets_are_unchanged),
    Check("derived tasks name their source", derived_tasks_name_their_source),
    Check("runs sample from their tasksets", runs_sample_from_their_tasksets),
    Check("tasks are quarantined for their failures", tasks_are_quarantined_for_their_failures),
    Check(
        "trained experiences belong to committed steps",
        trained_experiences_belong_to_committed_steps,
    ),
    Check("experience replay stays within its limits", experience_replay_stays_within_its_limits),
    Check("seeds match their originals", seeds_match_their_originals),
    Check("deleted arrays are not needed", deleted_arrays_are_not_needed),
    Check("steps record their settings", steps_record_their_settings),
    Check("trained experiences are fresh and rewarded", trained_experiences_are_fresh_and_rewarded),
    Check("answer-only groups are not trained on", answer_only_groups_are_not_trained_on),
    Check("partial rollouts are being sampled", partial_rollouts_are_being_sampled),
    Check("expert rollouts match their demonstrations", expert_rollouts_match_their_demonstrations),
    Check("expert rows name their parents", expert_rows_name_their_parents),
    Check("derived rollouts match their parents", derived_rollouts_match_their_parents),
    Check("preferences match their rollouts", preferences_match_their_rollouts),
    Check("operator counts match the rows", operator_counts_match_the_rows),
    Check("runs show their latest metrics", runs_show_their_latest_metrics),
    Check("snapshots are complete", snapshots_are_complete),
    Check(
        "published weights match their manifests",
        published_weights_match_their_manifests,
    ),
    Check("engines served what was published", engines_served_what_was_published),
    Check("kept weights are there", kept_weights_are_there),
    Check("branches start from the named version", branches_start_from_the_named_version),
    Check("replays match the recorded run", replays_match_the_recorded_run),
    Check("rescorings are complete", rescorings_are_complete),
    Check("people's rewards match their ratings", rewards_of_people_match_their_ratings),
    Check("nobody is asked about closed groups", nobody_is_asked_about_closed_groups),
    Check("finished slots have ratings", finished_slots_have_ratings),
    Check("changes have events", changes_have_events),
    Check("metric spans match their points", metric_spans_match_their_points),
    Check("episodes end with their rollouts", episodes_end_with_their_rollouts),
    Check("episodes end with their sessions", episodes_end_with_their_sessions),
    Check("episodes are rewarded once", episodes_are_rewarded_once),
    Check("sampled tokens are counted", sampled_tokens_are_counted),
    Check("usage totals match their hours", usage_totals_match_their_hours),
    Check("alerts have a history", alerts_have_a_history),
    Check("evaluations ask each task once", evaluations_ask_each_task_once),
    Check("votes refer to answers of their arena", votes_refer_to_answers_of_their_arena),
    Check("arenas count their votes", arenas_count_their_votes),
)


def reconcile(acknowledged: set[str] | None = None) -> dict[str, list[str]]:
    """Return the violations of every check, by name; a healthy database gives empty lists."""
    checks = (
        CHECKS
        if acknowledged is None
        else (
            *CHECKS,
            Check("acknowledged ratings are stored", acknowledged_ratings_are_stored(acknowledged)),
        )
    )
    return {check.name: _run_check(check) for check in checks}


def _run_check(check: Check) -> list[str]:
    with one_moment():
        return list(check.find())


@contextmanager
def one_moment() -> Iterator[None]:
    """Run the block in one snapshot of the database.

    Inside a caller's transaction, that transaction decides.
    """
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            # Reading a large version's folder takes longer than a transaction may otherwise be
            # idle.
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        yield
