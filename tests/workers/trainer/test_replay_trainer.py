"""A replay repeats the recorded updates: exactly if nobody is left out, and otherwise without the
ratings of those left out.
"""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from apps.accounts.models import Membership, User
from apps.buffer.models import Experience, Recorded, StepItem
from apps.dashboard.reconciliation import reconcile
from apps.feedback.aggregating import write_people_rewards
from apps.feedback.models import RaterModel, Rating, RolloutBaseNll
from apps.feedback.rater_model.predicted_rewards import write_model_rewards
from apps.feedback.ratings.stars import Stars, give
from apps.lineage.replaying import copying
from apps.lineage.replaying.creating import NothingToReplay, create_replay, propose
from apps.pipelines.refining import refine
from apps.policies.manifest import read_manifest
from apps.rewards.models import Reward
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.models import Group, Outcome, Rollout
from apps.runs.models import Run, TrainStep
from tests import profiles
from tests.feedback.teaching import demonstrate
from tests.rollouts.mixed import taskset_of
from tests.workers.trainer.feeding import LEASE, _tokens, _verdict
from tests.workers.trainer.test_crashes import Killed, lapse
from workers.trainer.run_trainer import RunTrainer

PEOPLE = {"per_group": 2, "weight": 1.0, "deadline_s": 60}
CARELESS = "dana"
WORDS = ("sorted 12345", "sorted", "sorry 12345", "no")


@pytest.fixture
def dana(project) -> User:
    user = User.objects.create_user(CARELESS)
    Membership.objects.create(project=project, user=user, role=Membership.Role.RATER)
    return user


@pytest.fixture
def rated_run(tiny_run, new_loop, bob, dana):
    """Return a function that makes six updates of two groups; bob rates two rollouts of each group,
    and dana one of every third from update `since` on.
    """

    def make(since: int = 1, **changes: object) -> Run:
        run = tiny_run(**{"people": PEOPLE, **changes})
        loop = new_loop()
        for _ in range(40):
            run.refresh_from_db()
            if not run.is_live:
                loop.stop()
                return run
            _feed_rated(run, bob, dana if run.step + 1 >= since else None)
            loop.serve()
        raise AssertionError(run.waiting_on)

    return make


def _feed_rated(run: Run, bob: User, dana: User | None) -> None:
    opened = Group.open(run, "explorer", LEASE, run.settings.groups_per_step, run.published_version)
    rollouts = Rollout.objects.filter(group__in=opened).select_related("group")
    words = {r.pk: WORDS[(r.group.draw_index + r.sample_index) % 4] for r in rollouts}
    outcomes = [
        Outcome(r.pk, _tokens(r, r.group.opened_version), words[r.pk], "stop") for r in rollouts
    ]
    RolloutBaseNll.objects.bulk_create(
        RolloutBaseNll(rollout=r, mean=1 + r.sample_index / 9, worst=2, rare=0) for r in rollouts
    )
    Group.finish_rollouts({group.pk: group.claimed for group in opened}, outcomes)
    scored = Group.objects.claim(Group.State.SCORING, "scorer", LEASE, 1000, run)
    record_verdicts(
        scored,
        [AnsweredQuestion(question, [_verdict(question)]) for question in open_questions(scored)],
    )
    for group in Group.objects.filter(run=run, state=Group.State.WAITING).order_by("pk"):
        first, second, third, _ = Rollout.objects.filter(group=group).order_by("sample_index")
        if dana and group.draw_index % 3 == 0:
            _say(dana, group, Stars(third.pk, 1, uuid.uuid4()))
        _say(bob, group, Stars(second.pk, 1 + (group.draw_index + 3) % 5, uuid.uuid4()))
        _say(bob, group, Stars(first.pk, 1 + group.draw_index % 5, uuid.uuid4()))
    Group.objects.filter(run=run, state=Group.State.WAITING).update(state=Group.State.JUDGED)
    _refine(run)


def _say(rater: User, group: Group, stars: Stars) -> None:
    """Give a rating while the group waits: nobody was asked about it, so the first rating alone
    would complete it.
    """
    Group.objects.filter(pk=group.pk).update(state=Group.State.WAITING)
    assert not give(rater, stars).is_late


def _refine(run: Run) -> None:
    groups = Group.objects.claim(Group.State.JUDGED, "refiner", LEASE, 1000, run)
    write_people_rewards(groups)
    write_model_rewards(groups)
    refine(groups)


def replayed(run: Run, new_loop, raters=(), tasks=(), turns: int = 60) -> Run:
    """Create the replay and train it to its end."""
    proposal = propose(run, raters, tasks)
    again = create_replay(proposal, proposal.slug, proposal.title)
    again.start()
    return to_the_end(again, new_loop(), turns)


def to_the_end(again: Run, loop, turns: int = 60) -> Run:
    for _ in range(turns):
        loop.serve()
        again.refresh_from_db()
        if not again.is_live:
            return again
        _refine(again)
    raise AssertionError(again.waiting_on)


def batches(run: Run) -> list[list[tuple]]:
    """Return what each update used, without ids: task, index in the group, reward, advantage,
    version.
    """
    found = []
    for step in run.steps.order_by("number"):
        items = (
            StepItem.objects.filter(step=step)
            .order_by("position")
            .select_related("experience__rollout__group")
        )
        found.append(
            [
                (
                    e.rollout.group.task_id,
                    e.kind,
                    e.rollout.sample_index,
                    e.reward,
                    e.advantage,
                    e.weight_version,
                    e.rollout.tokens,
                )
                for e in (item.experience for item in items)
            ]
        )
    return found


def violations() -> dict:
    found = {name: words for name, words in reconcile().items() if words}
    return {
        name: words for name, words in found.items() if name != "engines served what was published"
    }  # this test has no engine


@pytest.mark.nightly
def test_replay_drops_sampling_options_and_keeps_older_segments(rated_run, new_loop):
    run = rated_run(
        sampling={"slice_tokens": 64, "repeats": {}, "older_segments": "leave_out"}, over_rollout=1
    )
    again = replayed(run, new_loop)
    sampling = again.settings.sampling
    assert (sampling.slice_tokens, sampling.repeats, sampling.older_segments) == (
        None,
        None,
        "leave_out",
    )
    assert again.settings.over_rollout is None and batches(again) == batches(run)


def test_replay_without_exclusions_makes_the_same_updates_and_weights(rated_run, new_loop):
    run = rated_run()
    again = replayed(run, new_loop)
    assert (again.state, again.step, again.published_version) == (Run.State.COMPLETED, 6, 6)
    assert batches(again) == batches(run)
    prints = [
        list(each.weight_versions.order_by("version").values_list("fingerprint", flat=True))
        for each in (run, again)
    ]
    assert prints[0] == prints[1]
    assert violations() == {}
    named = Reward.objects.filter(rollout__run=again, scorer="people").values_list(
        "details__ratings", flat=True
    )
    assert {pk for ratings in named for pk in ratings} == set(
        Rating.objects.filter(run=again).values_list("pk", flat=True)
    )


@pytest.mark.nightly
def test_run_over_several_tasksets_is_replayed_over_them(rated_run, new_loop, project, taskset):
    taskset_of(project, "few", 3)
    run = rated_run(taskset=None, tasksets={"few": 1, "sort": 2})
    again = replayed(run, new_loop, [CARELESS])
    assert again.state == Run.State.COMPLETED and again.share_of == run.share_of == {
        "few": 1,
        "sort": 2,
    }
    drawn = [
        list(one.groups.order_by("draw_index").values_list("draw_index", "task"))
        for one in (run, again)
    ]
    assert (
        drawn[0] == drawn[1]
        and len({task for _, task in drawn[0]} & set(run.tasks.values_list("pk", flat=True))) == 7
    )
    with pytest.raises(NothingToReplay, match="a number alone doesn’t identify a task"):
        propose(run, tasks=[1])
    assert violations() == {}


def test_replay_does_not_change_the_recorded_run(rated_run, new_loop):
    run = rated_run()
    tables = (Group, Rollout, Experience, Rating)
    before = [list(table.objects.filter(run=run).order_by("pk").values()) for table in tables]
    replayed(run, new_loop, [CARELESS])
    assert [
        list(table.objects.filter(run=run).order_by("pk").values()) for table in tables
    ] == before


def test_leaving_out_a_rater_changes_only_the_groups_with_their_ratings(rated_run, new_loop):
    run = rated_run()
    again = replayed(run, new_loop, [CARELESS])
    touched = set(
        Rating.objects.filter(run=run, rater__username=CARELESS).values_list(
            "rollout__group", flat=True
        )
    )
    assert touched
    for row in Recorded.objects.filter(run=again):
        before, after = (
            list(
                Experience.objects.filter(group=group)
                .order_by("rollout__sample_index")
                .values_list("reward", "advantage")
            )
            for group in (row.of_id, row.group_id)
        )
        assert (before != after) == (row.of_id in touched)
    rewards = Reward.objects.filter(rollout__run=again)
    assert not rewards.filter(by__username=CARELESS).exists()
    assert (
        rewards.filter(by__username="bob").count()
        == Reward.objects.filter(rollout__run=run, by__username="bob").count()
    )
    assert violations() == {}


def test_replay_starts_from_the_version_before_the_raters_first_influence(rated_run, new_loop):
    run = rated_run(since=4)
    proposal = propose(run, [CARELESS])
    assert (proposal.beginning.first_use, proposal.beginning.version.version, proposal.steps) == (
        4,
        3,
        3,
    )
    again = replayed(run, new_loop, [CARELESS])
    assert (again.state, again.step) == (Run.State.COMPLETED, 3)
    version = run.weight_versions.get(version=3)
    assert again.policy.pk != run.policy.pk
    assert read_manifest(again.policy.folder).fingerprint == version.fingerprint
    assert again.weight_versions.get(version=0).fingerprint == version.fingerprint
    staleness = StepItem.objects.filter(step__run=again).values_list(
        "step__version", "experience__weight_version"
    )
    assert {trainer - sampler for trainer, sampler in staleness} == {0}


@pytest.mark.nightly
def test_replay_starts_from_an_older_version_when_folders_are_retired(rated_run):
    run = rated_run(since=4)
    run.weight_versions.filter(version__in=(1, 2, 3)).update(state="retired")
    beginning = propose(run, [CARELESS]).beginning
    assert (beginning.version.version, beginning.before.version, beginning.is_earlier) == (
        0,
        3,
        True,
    )


@pytest.mark.nightly
def test_update_that_loses_all_its_groups_is_omitted_and_later_ones_are_renumbered(
    rated_run, new_loop, taskset
):
    run = rated_run()
    numbers = {
        step.number: set(step.items.values_list("experience__group__task__index", flat=True))
        for step in run.steps.all()
    }
    gone = min(numbers[3])
    other = max(numbers[3])
    again = replayed(run, new_loop, (), (gone, other))
    left = [number for number in sorted(numbers) if numbers[number] - {gone, other}]
    assert (again.state, again.step, again.planned_steps) == (
        Run.State.COMPLETED,
        len(left),
        len(left),
    )
    assert not Group.objects.filter(run=again, task__index__in=(gone, other)).exists()
    staleness = StepItem.objects.filter(step__run=again).values_list(
        "step__version", "experience__weight_version"
    )
    assert all(trainer >= sampler for trainer, sampler in staleness)
    assert violations() == {}


def test_rater_without_influence_on_the_weights_cannot_be_left_out(rated_run, carol):
    with pytest.raises(NothingToReplay, match="carol had no influence on the weights"):
        propose(rated_run(), ["carol"])


def test_late_ratings_are_not_replayed(rated_run, new_loop, bob):
    run = rated_run()
    rollout = Rollout.objects.filter(run=run, rewards__by=bob).order_by("pk").first()
    late = give(bob, Stars(rollout.pk, 5, uuid.uuid4()))
    assert late.is_late
    again = replayed(run, new_loop)
    assert batches(again) == batches(run)


ENDINGS: list[str] = []


def undisturbed(run: Run, new_loop) -> str:
    """Return the last weights of an undisturbed replay; they are equal for all tests, so made
    once.
    """
    if not ENDINGS:
        again = replayed(run, new_loop, [CARELESS])
        ENDINGS.append(again.weight_versions.first().fingerprint)
    return ENDINGS[0]


@pytest.mark.parametrize(
    "method", profiles.nightly_but(("_update", "_commit", "_offer"), kept=("_commit",))
)
def test_trainer_after_one_killed_during_a_replay_reaches_the_same_weights(
    rated_run, new_loop, monkeypatch, method
):
    run = rated_run()
    expected = undisturbed(run, new_loop)
    proposal = propose(run, [CARELESS])
    again = create_replay(proposal, proposal.slug, proposal.title)
    again.start()
    original = getattr(RunTrainer, method)

    def die(trainer, *args):
        if trainer.run.pk == again.pk and again.steps.filter(number=4).exists():
            raise Killed
        return original(trainer, *args)

    with monkeypatch.context() as patch:
        patch.setattr(RunTrainer, method, die)
        with pytest.raises(Killed):
            to_the_end(again, new_loop())
    lapse(again)
    again = to_the_end(again, new_loop())
    assert again.weight_versions.first().fingerprint == expected
    assert set(again.steps.values_list("state", flat=True)) == {TrainStep.State.COMMITTED}


@pytest.mark.nightly
def test_trainer_killed_while_copying_leaves_no_partial_copy(rated_run, new_loop, monkeypatch):
    run = rated_run()
    proposal = propose(run, [CARELESS])
    again = create_replay(proposal, proposal.slug, proposal.title)
    again.start()

    def die(*args, **kwargs):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("apps.lineage.replaying.copying.Recorded.objects.bulk_create", die)
        with pytest.raises(Killed):
            new_loop().serve()
    assert not Group.objects.filter(run=again).exists()
    lapse(again)
    assert to_the_end(again, new_loop()).state == Run.State.COMPLETED


@pytest.mark.nightly
@pytest.mark.django_db(transaction=True)
def test_a_run_can_be_paused_while_its_data_is_copied(rated_run, new_loop, monkeypatch):
    proposal = propose(rated_run(), [CARELESS])
    again = create_replay(proposal, proposal.slug, proposal.title)
    again.start()
    states: list[str] = []
    bulk_create = Recorded.objects.bulk_create

    def pause_meanwhile(*args, **kwargs):
        """Another connection pauses the run before the copy is committed."""
        with ThreadPoolExecutor(1) as elsewhere:
            states.append(elsewhere.submit(_paused, again.pk).result())
        return bulk_create(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(f"{copying.__name__}.Recorded.objects.bulk_create", pause_meanwhile)
        new_loop().serve()
    assert states == [Run.State.PAUSED]
    assert Group.objects.filter(run=again).exists()
    lapse(again)
    again.refresh_from_db()
    again.resume()
    assert to_the_end(again, new_loop()).state == Run.State.COMPLETED


def _paused(pk: int) -> str:
    """Pause the run, waiting for its row at most two seconds; return its state."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '2s'")
    run = Run.objects.get(pk=pk)
    run.pause()
    connection.close()
    return run.state


@pytest.mark.nightly
def test_demonstrations_of_left_out_raters_are_excluded_from_a_mix_replay(
    rated_run, new_loop, taskset, bob, dana
):
    demonstrate(taskset, 2)
    from apps.feedback.models import Demonstration

    hers = list(Demonstration.objects.order_by("pk").values_list("pk", flat=True))[::2]
    Demonstration.objects.filter(pk__in=hers).update(author=dana)
    run = rated_run(
        since=99, algorithm={"name": "mix", "expert": {"ratio": 0.2, "mu": 0.3, "source": "buffer"}}
    )
    same = replayed(run, new_loop)
    assert batches(same) == batches(run)
    assert same.weight_versions.first().fingerprint == run.weight_versions.first().fingerprint
    without = replayed(run, new_loop, [CARELESS])
    authors = (
        Experience.objects.expert()
        .filter(run=without)
        .values_list("rollout__expert_answer__demonstration__author", flat=True)
    )
    assert dana.pk not in set(authors)
    assert violations() == {}


def test_replay_samples_nothing(rated_run):
    run = rated_run()
    proposal = propose(run, [CARELESS])
    again = create_replay(proposal, proposal.slug, proposal.title)
    again.start()
    assert not Run.objects.exploring().filter(pk=again.pk).exists()
    assert Group.open(again, "explorer", LEASE, 4, 0) == []


MODELLED = {
    "people": {**PEOPLE, "at_deadline": "fill_with_rater_model", "rater_model": {"min_ratings": 2}},
    "rewards": [],
}


def foretold(run: Run) -> dict[tuple, float]:
    """Return the predictions of the rater models by task and index in the group."""
    rewards = Reward.objects.filter(rollout__run=run, scorer="rater_model").order_by("pk")
    names = ("rollout__group__task", "rollout__sample_index", "details__rater_model", "value")
    return {
        (task, place, number): value for task, place, number, value in rewards.values_list(*names)
    }


@pytest.mark.nightly
def test_replay_with_a_rater_model_and_no_exclusions_is_exact(rated_run, new_loop):
    run = rated_run(**MODELLED)
    assert RaterModel.objects.filter(run=run).count() >= 5
    again = replayed(run, new_loop)
    assert batches(again) == batches(run)
    assert again.weight_versions.first().fingerprint == run.weight_versions.first().fingerprint


@pytest.mark.nightly
def test_rater_models_that_used_left_out_ratings_are_fitted_again(rated_run, new_loop):
    run = rated_run(since=4, **MODELLED)
    first = Rating.objects.filter(run=run, rater__username=CARELESS).order_by("pk").first()
    tainted = set(
        RaterModel.objects.filter(run=run, last_rating__gte=first).values_list("number", flat=True)
    )
    run.weight_versions.filter(version__gt=0, version__lt=6).update(
        state="retired"
    )  # so that the whole run is replayed
    again = replayed(run, new_loop, [CARELESS])
    before = foretold(run)
    after = foretold(again)
    assert before.keys() == after.keys()
    clean = {key for key in before if key[2] not in tainted}
    assert clean
    assert all(before[key] == after[key] for key in clean)
    assert all(before[key] != after[key] for key in before.keys() - clean)
    for model in RaterModel.objects.filter(run=again, number__in=tainted):
        assert str(first.rater_id) not in model.coefficients["raters"]


@pytest.mark.nightly
def test_replay_of_an_adapter_run_starts_from_merged_weights(rated_run, new_loop):
    run = rated_run(
        since=5,
        lora={"rank": 2, "alpha": 4.0},
        optimizer={"warmup_steps": 0, "learning_rate": 1e-2},
    )
    proposal = propose(run, [CARELESS])
    assert proposal.beginning.version.version == 4
    again = replayed(run, new_loop, [CARELESS])
    assert (again.state, again.step, again.policy.source) == (
        Run.State.COMPLETED,
        2,
        f"{run.slug}@4",
    )
    assert read_manifest(again.policy.folder).base is None
    assert violations() == {}
