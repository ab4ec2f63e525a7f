"""Runs over REST: shown to members, steered by permitted users, created from a configuration."""

import pytest

from apps.accounts.models import AuditEntry, Membership
from apps.runs.models import Metric, Run
from tests.rollouts.mixed import taskset_of

pytestmark = pytest.mark.django_db

CONFIG = {
    "policy": "tiny",
    "taskset": "sort",
    "steps": 10,
    "group_size": 2,
    "groups_per_step": 2,
    "rewards": [{"scorer": "sort"}],
}
NEW = {"project": "lab", "slug": "mine", "title": "Mine", "config": CONFIG}


@pytest.fixture
def viewer(program, project, carol):
    """Return a program of a user with the role viewer."""
    Membership.objects.create(project=project, user=carol, role=Membership.Role.VIEWER)
    return program(carol)


def test_members_see_their_runs_and_strangers_see_none(program, alice, bob, carol, run):
    assert [item["id"] for item in program(bob).get("runs/").json()["items"]] == [run.pk]
    assert program(carol).get("runs/").json() == {"items": [], "more": False}
    assert program(carol).get(f"runs/{run.pk}/").status_code == 404


def test_a_run_is_shown_with_its_configuration(program, bob, run):
    shown = program(bob).get(f"runs/{run.pk}/").json()
    assert (shown["slug"], shown["state"], shown["project"], shown["config"]["steps"]) == (
        "run-0",
        "running",
        "lab",
        10,
    )
    assert shown["topic"] == run.topic_id and (shown["taskset"], shown["tasksets"]) == (
        "sort",
        {"sort": 1},
    )


def test_run_over_several_tasksets_shows_their_shares(program, alice, project, policy, taskset):
    taskset_of(project, "large", 7)
    caller = program(alice)
    made = caller.post(
        "runs/", NEW | {"config": CONFIG | {"taskset": None, "tasksets": {"sort": 1, "large": 3}}}
    )
    assert made.status_code == 201, made.content
    (listed,) = caller.get("runs/").json()["items"]
    for said in (made.json(), listed):
        assert said["taskset"] is None and said["tasksets"] == {"large": 3, "sort": 1}
    assert made.json()["config"]["tasksets"] == {"large": 3, "sort": 1}


def test_list_is_paged_by_id_in_both_directions(program, bob, new_run):
    ids = [new_run().pk for _ in range(5)]
    caller = program(bob)
    newest = caller.get("runs/", limit=2).json()
    assert ([item["id"] for item in newest["items"]], newest["more"]) == ([ids[4], ids[3]], True)
    older = caller.get("runs/", limit=3, before=ids[3]).json()
    assert ([item["id"] for item in older["items"]], older["more"]) == (
        [ids[2], ids[1], ids[0]],
        False,
    )
    following = caller.get("runs/", limit=2, after=ids[0]).json()
    assert ([item["id"] for item in following["items"]], following["more"]) == (
        [ids[1], ids[2]],
        True,
    )


def test_list_of_runs_needs_at_most_6_queries(program, bob, new_run, django_assert_max_num_queries):
    for _ in range(5):
        new_run()
    caller = program(bob)
    with django_assert_max_num_queries(6):  # one of them for the tasksets of runs that have several
        assert len(caller.get("runs/").json()["items"]) == 5


def test_a_list_is_filtered_by_state_and_project(program, bob, new_run):
    paused = new_run()
    new_run()
    paused.pause()
    caller = program(bob)
    assert [item["id"] for item in caller.get("runs/", state="paused").json()["items"]] == [
        paused.pk
    ]
    assert caller.get("runs/", project="elsewhere").json()["items"] == []


def test_a_run_goes_through_its_states(program, alice, project, policy, taskset):
    caller = program(alice)
    made = caller.post("runs/", NEW)
    assert made.status_code == 201 and made.json()["state"] == "created"
    assert AuditEntry.objects.get(action="run created").by == alice
    path = f"runs/{made.json()['id']}"
    states = [
        caller.post(f"{path}/{verb}/").json()["state"]
        for verb in ("start", "pause", "resume", "stop")
    ]
    assert states == ["running", "paused", "running", "stopped"]


def test_action_not_allowed_in_the_current_state_is_a_conflict(program, alice, run):
    answer = program(alice).post(f"runs/{run.pk}/resume/")
    assert answer.status_code == 409 and "it must be paused" in answer.json()["detail"]


def test_pause_stores_user_and_reason(program, alice, run):
    assert (
        program(alice)
        .post(f"runs/{run.pk}/pause/", {"reason": "the rewards look odd"})
        .json()["state_reason"]
        == "the rewards look odd"
    )
    assert run.topic.events.last().payload["by"] == "alice"


@pytest.mark.parametrize(
    ("verb", "act"),
    [
        ("start", "run started"),
        ("pause", "run paused"),
        ("resume", "run resumed"),
        ("stop", "run stopped"),
    ],
)
def test_every_action_is_audited_with_its_reason(program, alice, run, verb, act):
    before = {"start": Run.State.CREATED, "resume": Run.State.PAUSED}.get(verb, Run.State.RUNNING)
    Run.objects.filter(pk=run.pk).update(state=before)
    assert (
        program(alice)
        .post(f"runs/{run.pk}/{verb}/", {"reason": " as agreed with bob "})
        .status_code
        == 200
    )
    entry = AuditEntry.objects.filter(action=act).latest("pk")
    assert (entry.by, entry.details) == (alice, {"reason": "as agreed with bob"})


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("x" * 301, "can have 300 characters; this one has 301"),
        ("two\nlines", "one line of plain text"),
        (7, "string"),
    ],
)
def test_invalid_reason_is_refused_by_field_and_the_run_stays_unchanged(
    program, alice, run, reason, words
):
    answer = program(alice).post(f"runs/{run.pk}/pause/", {"reason": reason})
    assert answer.status_code == 422 and words in answer.json()["errors"]["reason"][0]
    run.refresh_from_db()
    assert (
        run.state == Run.State.RUNNING
        and not AuditEntry.objects.filter(action="run paused").exists()
    )


@pytest.mark.parametrize("verb", ["start", "pause", "resume", "stop"])
def test_raters_and_viewers_cannot_steer_and_strangers_get_404(program, bob, viewer, run, verb):
    assert program(bob).post(f"runs/{run.pk}/{verb}/").status_code == 403
    assert viewer.post(f"runs/{run.pk}/{verb}/").status_code == 403
    Membership.objects.filter(role=Membership.Role.VIEWER).delete()
    assert viewer.post(f"runs/{run.pk}/{verb}/").status_code == 404
    run.refresh_from_db()
    assert run.state == Run.State.RUNNING


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"project": "elsewhere"}, "project"),
        ({"slug": "no slug"}, "slug"),
        ({"title": 7}, "title"),
        ({"config": []}, "config"),
        ({"config": {**CONFIG, "stepz": 1}}, "config.stepz"),
        ({"config": {**CONFIG, "policy": "none"}}, "config.policy"),
        ({"config": {**CONFIG, "steps": -1}}, "config.steps"),
        ({"config": {**CONFIG, "rewards": [{"scorer": "nobody"}]}}, "config.rewards.0.scorer"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_invalid_new_run_is_refused_by_field(program, alice, policy, taskset, changes, field):
    answer = program(alice).post("runs/", {**NEW, **changes})
    assert answer.status_code == 422 and field in answer.json()["errors"]


def test_slug_in_use_is_a_conflict(program, alice, policy, taskset):
    caller = program(alice)
    assert [caller.post("runs/", NEW).status_code for _ in range(2)] == [201, 409]


def test_rater_cannot_create_a_run(program, bob, policy, taskset):
    assert program(bob).post("runs/", NEW).status_code == 422


def test_blind_rater_sees_neither_curves_nor_the_published_version(program, bob, new_run):
    shut = new_run()
    free = new_run(people={"blind": False})
    for run in (shut, free):
        Run.objects.filter(pk=run.pk).update(step=1, published_version=1)
        Metric.record(run, 1, {"reward_mean": 0.5})
    caller = program(bob)
    assert caller.get(f"runs/{shut.pk}/metrics/").json()["curves"] == {}
    assert caller.get(f"runs/{free.pk}/metrics/").json()["curves"] == {
        "reward_mean": {"steps": [1], "values": [0.5]}
    }
    assert {
        item["id"]: item["published_version"] for item in caller.get("runs/").json()["items"]
    } == {shut.pk: None, free.pk: 1}


def test_metrics_are_returned_in_windows_of_steps(program, alice, run):
    Run.objects.filter(pk=run.pk).update(step=5)
    for step in range(1, 6):
        Metric.record(run, step, {"loss": step / 10, "kl": float("nan") if step == 2 else 0.0})
    caller = program(alice)
    path = f"runs/{run.pk}/metrics/"
    first = caller.get(path, steps=3).json()
    assert (first["step"], first["until"], first["more"]) == (5, 3, True)
    assert first["curves"] == {
        "loss": {"steps": [1, 2, 3], "values": [0.1, 0.2, 0.3]},
        "kl": {"steps": [1, 3], "values": [0.0, 0.0]},
    }
    rest = caller.get(path, after=3, names="loss,unknown").json()
    assert (rest["until"], rest["more"], rest["curves"]) == (
        5,
        False,
        {"loss": {"steps": [4, 5], "values": [0.4, 0.5]}},
    )
    assert caller.get(path, after=5).json() == {"step": 5, "until": 5, "more": False, "curves": {}}
