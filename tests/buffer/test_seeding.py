"""Seeding: groups of one run are copied into another before it starts, complete, unjudged, with
their behaviour logprobs.
"""

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models.functions import Now
from django.urls import reverse

from apps.buffer.ledger import seeds_match_their_originals
from apps.buffer.models import Experience, Seed, batch_of, plan_step
from apps.buffer.retention import ReleaseSize, released
from apps.dashboard.reconciliation import reconcile
from apps.dashboard.reconciliation.groups import group_ledger
from apps.feedback.models import Intervention
from apps.pipelines.refining import refine
from apps.pipelines.seeding import NotSeeded, seed_run, why_not_seedable
from apps.rewards.models import Reward
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.excluded_tasks import LeftOut
from apps.rollouts.models import Group, Rollout, RolloutPayload
from apps.rollouts.payload import pack
from apps.runs.admission import groups_allowed
from apps.runs.models import Run, WeightVersion
from apps.runs.parsing import parse_config
from apps.runs.retention import Retention
from tests.conftest import tokens_of
from tests.rollouts.mixed import taskset_of

WIDE = (0.0, 1.0)


@pytest.fixture
def source(new_run, judged) -> Run:
    """Create a run whose version 3 sampled four groups, two of them trained."""
    run = new_run(max_staleness=9)
    for number in (1, 2, 3):
        version = WeightVersion.objects.create(
            run=run, version=number, folder="/nowhere", fingerprint="f", step=number
        )
        version.verify()
        version.publish()
    Run.objects.filter(pk=run.pk).update(step=3)
    judged(run, *[WIDE] * 4, version=3)
    Experience.objects.filter(run=run, group__draw_index__lt=2).update(state="trained", uses=1)
    for number, rollout in enumerate(run.rollouts.order_by("pk")):
        tokens = replace(tokens_of("12345", 3), logprobs=(-0.125 * number,) * 5)
        RolloutPayload.objects.filter(rollout=rollout).update(data=pack(tokens))
    return Run.objects.get(pk=run.pk)


@pytest.fixture
def fresh(project, policy, plan):
    """Create a run that is not started."""

    def make(slug: str = "fresh", **changes: object) -> Run:
        return Run.create(
            project=project, slug=slug, title="Fresh", plan=plan(**{"max_staleness": 3, **changes})
        )

    return make


def seeded(run: Run, of: Run, most: int | None = None, **which: object) -> Run:
    seed_run(run, of, of.rollouts.filter(**which), most)
    return Run.objects.get(pk=run.pk)


def judge(run: Run) -> None:
    """Judge the groups as the workers do: every second rollout is right."""
    claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 100, run=run)
    odd = set(Rollout.objects.filter(run=run, sample_index=1).values_list("pk", flat=True))
    questions = open_questions(claimed)
    record_verdicts(
        claimed,
        [
            AnsweredQuestion(q, [Verdict(float(pk in odd), "test") for pk in q.rollout_ids])
            for q in questions
        ],
    )
    refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 100, run=run))


def ours(run: Run) -> dict[str, list[str]]:
    """Return the violations of this run."""
    names = (f"run {run.pk}:", run.slug)
    return {
        name: own
        for name, found in reconcile().items()
        if (own := [words for words in found if words.startswith(names)])
    }


# -- seeded groups


def test_seeded_groups_are_complete_unjudged_and_linked_to_their_originals(source, fresh):
    run = seeded(fresh(), source)
    pairs = list(
        Seed.objects.order_by("group__draw_index").values_list(
            "group__draw_index", "of__draw_index", "of__run"
        )
    )
    assert pairs == [(n, n, source.pk) for n in range(4)] and run.groups_opened == 4
    for one in Seed.objects.select_related("group", "of"):
        assert (one.group.task_id, one.group.size, one.group.state) == (
            one.of.task_id,
            one.of.size,
            "scoring",
        )
    assert run.rollouts.count() == 8 and not Reward.objects.filter(rollout__run=run).exists()


def test_seeds_copy_tokens_and_logprobs_and_get_the_base_version(source, fresh):
    run = seeded(fresh(), source)
    for rollout in run.rollouts.select_related("group__seed", "payload"):
        parent = Rollout.objects.get(
            group=rollout.group.seed.of_id, sample_index=rollout.sample_index
        )
        assert rollout.tokens == replace(
            parent.tokens, segments=((0, 0),)
        ) and parent.tokens.segments == ((0, 3),)
        assert (rollout.first_version, rollout.last_version, parent.last_version) == (0, 0, 3)
        assert (rollout.text, rollout.stop_reason, rollout.finished_at) == (
            parent.text,
            parent.stop_reason,
            parent.finished_at,
        )
    assert len({rollout.tokens.logprobs[0] for rollout in run.rollouts.all()}) == 8


def test_seeds_are_judged_and_trained_like_other_groups_and_counted_once(source, fresh):
    run = seeded(fresh(), source)
    run.start()
    judge(run)
    assert run.claim_trainer("t", 60)
    step = plan_step(run, run.fence)
    assert [one.group.draw_index for one in batch_of(step)] == [0, 0, 1, 1]
    assert {one.weight_version for one in batch_of(step)} == {0} and batch_of(step)[
        0
    ].rollout.tokens.logprobs == (0.0,) * 5
    ledger = group_ledger(run)
    assert (ledger["issued"], ledger["claimed"], ledger["ready"], ledger["sampling"]) == (
        4,
        2,
        2,
        0,
    )
    assert ours(run) == {} and not list(seeds_match_their_originals())


def test_pace_counts_seeds_and_allows_the_rest_to_be_sampled(source, fresh):
    run = fresh(max_staleness=1)
    room = groups_allowed(run.pace)
    run = seeded(run, source, 3)
    assert room == 4 and groups_allowed(run.pace) == 1
    run.start()
    assert [group.draw_index for group in Group.open(run, "e", 60, 10, 0)] == [3]


def test_only_as_many_seeds_as_staleness_allows_are_copied_newest_first(source, fresh):
    run = seeded(fresh(max_staleness=0), source)
    assert list(
        Seed.objects.filter(run=run).order_by("group").values_list("of__draw_index", flat=True)
    ) == [2, 3]


def test_seeds_beyond_the_staleness_limit_are_dropped(source, fresh):
    run = seeded(fresh(max_staleness=1), source, 2)
    run.start()
    judge(run)
    Run.objects.filter(pk=run.pk).update(step=2, published_version=2)
    assert run.claim_trainer("t", 60) and plan_step(run, run.fence) is None
    assert set(Experience.objects.filter(run=run).values_list("reason", flat=True)) == {
        "stale: older than version 1"
    }


def test_group_is_seeded_only_once(source, fresh):
    run = seeded(fresh(), source, 1)
    found = seed_run(run, source, source.rollouts.all())
    assert (found.matching, found.fit, found.taken) == (4, 3, 3)
    assert list(
        Seed.objects.order_by("group__draw_index").values_list("of__draw_index", flat=True)
    ) == [3, 0, 1, 2]


def test_matching_rollout_is_seeded_with_its_whole_group(source, fresh):
    one = source.rollouts.filter(group__draw_index=2).first()
    run = seeded(fresh(), source, pk=one.pk)
    assert run.groups.get().seed.of == one.group and run.rollouts.count() == 2


def test_dry_run_reports_the_same_numbers_and_writes_nothing(source, fresh):
    run = fresh()
    told = seed_run(run, source, source.rollouts.all(), dry_run=True)
    assert not Seed.objects.exists() and Run.objects.get(pk=run.pk).groups_opened == 0
    assert told == replace(seed_run(run, source, source.rollouts.all()), rollouts=0)


# -- groups that are not seeded


def left(source: Run, run: Run) -> set[int]:
    """Return the draws that are seeded."""
    seeded(run, source)
    return set(Seed.objects.filter(run=run).values_list("of__draw_index", flat=True))


def test_groups_not_admitted_or_excluded_as_suspicious_are_not_seeded(source, fresh):
    groups = list(source.groups.order_by("draw_index"))
    Group.objects.filter(pk=groups[0].pk).update(state="dropped", reason="no spread")
    Experience.objects.filter(group=groups[1]).update(reason="suspected of hacking")
    Experience.objects.filter(group=groups[2]).update(
        state="dropped", reason="stale: older than version 4"
    )
    assert left(source, fresh()) == {2, 3}


def test_tasks_excluded_by_either_run_are_not_seeded(source, fresh, alice):
    run = fresh()
    groups = list(source.groups.order_by("draw_index"))
    LeftOut.objects.create(run=source, task=groups[0].task, reason="guessed", by=alice)
    LeftOut.objects.create(run=run, task=groups[1].task, reason="guessed", by=alice)
    kept = {
        group.draw_index
        for group in groups
        if group.task_id not in {groups[0].task_id, groups[1].task_id}
    }
    assert left(source, run) == kept != set()


def test_rollouts_without_arrays_too_long_or_edited_are_not_seeded(source, fresh, alice):
    by_draw = {draw: source.rollouts.filter(group__draw_index=draw).first() for draw in range(3)}
    RolloutPayload.objects.filter(rollout=by_draw[0]).delete()
    Rollout.objects.filter(pk=by_draw[0].pk).update(arrays_released_at=Now())
    Rollout.objects.filter(pk=by_draw[1].pk).update(completion_tokens=10_000)
    Intervention.objects.create(
        rollout=by_draw[2], by=alice, kind="edit", state="done", client_uuid=uuid.uuid4()
    )
    assert left(source, fresh()) == {3}


def test_groups_larger_than_the_runs_group_size_are_not_seeded(source, fresh):
    big = source.groups.get(draw_index=1)
    Group.objects.filter(pk=big.pk).update(size=3)
    assert left(source, fresh()) == {0, 2, 3}


# -- refusals


def test_run_that_has_started_cannot_be_seeded(source, new_run):
    with pytest.raises(NotSeeded, match="seed a run before you start it"):
        seed_run(new_run(), source, source.rollouts.all())


def test_run_cannot_be_seeded_from_itself_or_another_taskset(source, fresh, project):
    run = fresh()
    assert "another run" in why_not_seedable(run, run)
    other = project.tasksets.create(
        slug="other", title="Other", source="sort", seed=0, size=0, digest="1" * 64
    )
    run.taskset = other
    assert "they need a common taskset" in why_not_seedable(run, source)


def test_run_of_several_tasksets_exchanges_only_groups_of_common_tasksets(source, fresh, project):
    taskset_of(project, "other", 5)
    mixed = seeded(
        fresh("mixed", taskset=None, tasksets={"other": 1, source.taskset.slug: 1}), source
    )
    assert Seed.objects.filter(run=mixed).count() == 4
    judge(mixed)
    back = seeded(fresh("back", taskset="other"), mixed)
    assert not Seed.objects.filter(run=back).exists(), "no group belongs to the other taskset"
    assert Seed.objects.filter(run=seeded(fresh("same"), mixed)).count() == 4


def test_another_policy_is_refused_unless_its_tokenizer_is_the_same(
    source, fresh, policy, monkeypatch
):
    run = fresh()
    policy.pk = None
    policy.slug = "larger"
    policy.folder = "/nowhere"
    policy.save(force_insert=True)
    run.policy = policy
    assert "whose tokenizer may differ from that of larger" in why_not_seedable(run, source)
    monkeypatch.setattr("apps.pipelines.seeding.tokenizer_fingerprint", lambda policy: "same")
    assert why_not_seedable(run, source) == ""


def test_seeding_is_refused_for_runs_with_an_environment_a_replay_or_lessons(
    source, fresh, project
):
    lessons = {"rewards": [], "snapshot": {"source": "preferences"}, "algorithm": "dpo"}
    taught = parse_config({"policy": "tiny", "taskset": "sort", "steps": 3, **lessons})
    assert "trains on lessons" in why_not_seedable(
        Run.create(project=project, slug="l", title="L", plan=taught), source
    )
    assert "acts in an environment" in why_not_seedable(
        fresh("e", environment={"name": "guess_number"}), source
    )
    assert "replays" in why_not_seedable(
        fresh("r", replay={"run": source.slug, "last_step": 1}), source
    )


# -- concurrency, the command, pages, ledger


@pytest.mark.django_db(transaction=True)
def test_two_concurrent_seedings_copy_each_group_once(source, fresh):
    run = fresh()

    def work(_: int) -> int:
        try:
            return seed_run(run, source, source.rollouts.all()).taken
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        both = sorted(pool.map(work, range(2)))
    assert both == [0, 4] and Run.objects.get(pk=run.pk).groups_opened == 4
    assert sorted(run.groups.values_list("draw_index", flat=True)) == [0, 1, 2, 3]


def test_command_seeds_by_a_search_after_a_dry_run(source, fresh, capsys):
    run = fresh()
    where = ["fate=trained", "reward_from=0.5"]
    call_command(
        "runs",
        "seed",
        run.slug,
        "--from",
        source.slug,
        *[f"--where={one}" for one in where],
        "--dry-run",
    )
    assert (
        "would be copied: 2 groups, of 2 that fit and 2 that match" in capsys.readouterr().out
        and not Seed.objects.exists()
    )
    call_command(
        "runs", "seed", run.slug, "--from", source.slug, *[f"--where={one}" for one in where]
    )
    assert "2 groups copied" in capsys.readouterr().out
    assert set(Seed.objects.values_list("of__draw_index", flat=True)) == {0, 1}


@pytest.mark.parametrize(
    ("where", "words"), [("colour=red", "no field colour"), ("reward_from=high", "reward_from: ")]
)
def test_invalid_search_is_refused_by_field(source, fresh, where, words):
    with pytest.raises(CommandError, match=words):
        call_command("runs", "seed", fresh().slug, "--from", source.slug, f"--where={where}")


def test_pages_link_a_seeded_rollout_to_its_original_run(source, fresh, client, alice):
    run = seeded(fresh(), source)
    client.force_login(alice)
    rollout = run.rollouts.order_by("pk").first()
    parent = Rollout.objects.get(group=rollout.group.seed.of_id, sample_index=rollout.sample_index)
    page = client.get(reverse("rollout", args=[rollout.pk]))
    assert (
        page.status_code == 200
        and f"copied from rollout {parent.pk} of {source.slug}, sampled by its v3"
        in page.content.decode()
    )
    page = client.get(reverse("run-buffer", args=[run.project.slug, run.slug])).content.decode()
    assert "4 groups came from" in page and source.slug in page


def test_source_can_release_its_arrays_and_seeds_keep_theirs(source, fresh):
    run = seeded(fresh(), source)
    source.stop()
    source.groups.update(closed_at="2020-01-01T00:00:00Z")
    assert sum(released(source, Retention(days=1)), ReleaseSize()).rollouts == 8
    assert (
        RolloutPayload.objects.filter(rollout__run=run).count() == 8
        and run.rollouts.first().tokens.completion_ids
    )


def test_reconcile_finds_a_seed_of_another_task(source, fresh):
    run = seeded(fresh(), source)
    one, other = run.groups.order_by("pk")[:2]
    Group.objects.filter(pk=one.pk).update(task=other.task_id)
    (found,) = seeds_match_their_originals()
    assert found.startswith(f"{run}: ") and "differs from its original" in found


def test_reconcile_finds_a_seed_with_another_text_or_a_newer_version(source, fresh):
    run = seeded(fresh(), source)
    assert not list(seeds_match_their_originals())
    first, second, *_ = run.rollouts.order_by("pk")
    Rollout.objects.filter(pk=first.pk).update(text="something else")
    Rollout.objects.filter(pk=second.pk).update(last_version=2)
    found = list(seeds_match_their_originals())
    assert [f"rollout {first.pk}: the text differs from" in line for line in found] == [True, False]
    assert f"rollout {second.pk}: copied from another run" in found[1]
