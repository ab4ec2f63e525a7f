"""The content of pages, and the effect of their forms."""

import pytest
from django.urls import reverse

from apps.accounts.models import Membership, Token, User
from apps.buffer.models import Experience, StepItem
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Metric, MetricSpan, Run


@pytest.fixture
def alice_client(client, seeded):
    client.force_login(seeded.alice)
    return client


def page(client, name, *args, **query) -> str:
    answer = client.get(reverse(name, args=args), query)
    assert answer.status_code == 200
    return answer.content.decode()


def act(client, run, verb, **data):
    return client.post(
        reverse("run-act", args=["lab", run.slug, verb]), data, follow=True
    ).content.decode()


def test_run_page_shows_the_state_with_its_cause(alice_client, seeded):
    assert "Running · step 3 of 200" in (html := page(alice_client, "run", "lab", "tone-7"))
    assert "waiting for people to rate 4 groups" in html


def test_run_page_shows_why_a_group_was_dropped(alice_client, seeded):
    assert "0 of 4 rollouts have a reward" in page(alice_client, "run", "lab", "tone-7")


def test_run_can_be_paused_and_resumed(alice_client, seeded):
    assert "Resume run" in act(alice_client, seeded.run, "pause")
    assert "Pause run" in act(alice_client, seeded.run, "resume")


def test_resuming_a_running_run_is_rejected_with_the_reason(alice_client, seeded):
    assert "it must be paused" in act(alice_client, seeded.run, "resume")


def test_run_is_not_stopped_when_the_typed_name_differs(alice_client, seeded):
    assert "Not stopped" in act(alice_client, seeded.run, "stop", name="another")
    assert Run.objects.get(pk=seeded.run.pk).is_live


def test_run_is_stopped_when_its_name_is_typed(alice_client, seeded):
    act(alice_client, seeded.run, "stop", name="tone-7")
    assert Run.objects.get(pk=seeded.run.pk).state == Run.State.STOPPED


def test_simulated_rater_can_be_switched_off_and_the_change_is_recorded(alice_client, seeded):
    alice_client.post(reverse("run-simulated-rater", args=["lab", "tone-7"]), {"on": "false"})
    run = Run.objects.get(pk=seeded.run.pk)
    assert run.settings.people.simulated is False
    assert run.topic.events.filter(kind="config_changed", payload__by="alice").exists()


def test_curves_return_points_after_the_cursor(alice_client, seeded):
    answer = alice_client.get(reverse("run-curves", args=["lab", "tone-7"]), {"after": 2}).json()
    assert (
        answer["step"] == 3
        and answer["x"] == [3]
        and list(answer["series"]["reward_mean"]) == ["y"]
    )


@pytest.mark.parametrize("after", ["x", "1e9", "--1"])
def test_curves_reject_a_cursor_that_is_not_a_step_number(alice_client, seeded, after):
    answer = alice_client.get(reverse("run-curves", args=["lab", "tone-7"]), {"after": after})
    assert answer.status_code == 400 and "whole number" in answer.json()["errors"]["after"][0]


def test_a_long_curve_is_thinned_and_keeps_its_peak(seeded):
    from apps.dashboard.curves import curves

    run = seeded.run
    run.step = run.planned_steps = 20_000
    run.save()
    Metric.objects.filter(run=run).delete()
    Metric.objects.bulk_create(
        Metric(run=run, step=n, name="kl", value=9.0 if n == 7_777 else n % 7 / 10)
        for n in range(1, 20_001)
    )
    MetricSpan.fill(run)
    points = curves(run, ["kl"])["kl"]
    assert (
        len(points["x"]) <= 802 and max(points["y"]) == 9.0 and points["x"] == sorted(points["x"])
    )


def test_rollout_page_shows_training_step_and_own_rating(alice_client, seeded):
    html = page(alice_client, "rollout", seeded.rollout.pk)
    assert "Admitted and trained in step 1" in html and "your stars" in html


def test_rollout_page_shows_escaped_details_options_and_time_of_a_reward(alice_client, seeded):
    hostile = {"items": "<script>alert(1)</script>", "tests": [{"n": 1, "why": "x" * 60}]}
    reward = Reward.objects.filter(rollout=seeded.rollout, by=None).first()
    Reward.objects.filter(pk=reward.pk).update(
        details=hostile, options={"loud": True}, seconds=0.25, version=3
    )
    html = page(alice_client, "rollout", seeded.rollout.pk)
    assert f"Details of {reward.scorer}" in html and "version 3" in html and "250 ms" in html
    assert "Option loud" in html and "&lt;script&gt;" in html and "<script>alert" not in html


def test_rollout_page_says_that_its_group_waits_for_people(alice_client, seeded):
    assert "its group is waiting for people" in page(alice_client, "rollout", seeded.waiting.pk)


def test_page_of_a_failed_rollout_shows_why_its_group_was_dropped(alice_client, seeded):
    failed = seeded.run.rollouts.filter(state="failed").first()
    assert "Dropped: 0 of 4" in page(alice_client, "rollout", failed.pk)


@pytest.mark.parametrize(
    ("fate", "state"), [("dropped", Group.State.DROPPED), ("waiting", Group.State.WAITING)]
)
def test_rollout_list_is_filtered_by_fate(alice_client, seeded, fate, state):
    answer = alice_client.get(reverse("rollouts", args=["lab", "tone-7"]), {"fate": fate})
    assert {row["rollout"].group.state for row in answer.context["rows"]} == {state}


def test_anchor_is_not_shown_as_the_policys_own_reply(alice_client, seeded):
    group = seeded.rollout.group
    anchor = Rollout.objects.create(
        run=seeded.run,
        group=group,
        origin="synthetic",
        sample_index=0,
        state="finished",
        text="said by the base weights",
    )
    for html in (
        page(alice_client, "live"),
        page(alice_client, "rollouts", "lab", "tone-7"),
        page(alice_client, "run", "lab", "tone-7"),
    ):
        assert "said by the base weights" not in html
    assert "said by the base weights" not in page(alice_client, "live-cards", rollout=anchor.pk)
    assert "said by the base weights" not in page(alice_client, "rollout", seeded.rollout.pk)
    assert "synthetic, by the base model" in page(alice_client, "rollout", anchor.pk)


def test_star_buttons_appear_only_for_people_who_may_rate(client, seeded):
    dora = User.objects.create_user("dora")
    Membership.objects.create(project=seeded.run.project, user=dora, role=Membership.Role.VIEWER)
    found = {}
    for user in (seeded.bob, dora):
        client.force_login(user)
        found[user.username] = [
            "data-stars" in html
            for html in (
                page(client, "live"),
                page(client, "live-follow", seeded.rollout.pk),
                page(client, "rollout", seeded.rollout.pk),
            )
        ]
    assert found == {"bob": [True, True, True], "dora": [False, False, False]}
    seeded.run.config["people"]["raters"] = {"people": ["alice"], "groups": []}
    seeded.run.save()
    client.force_login(seeded.bob)
    assert "data-stars" not in page(client, "live") + page(client, "live-follow", seeded.rollout.pk)


def test_rollout_list_is_filtered_by_training_step(alice_client, seeded):
    answer = alice_client.get(
        reverse("rollouts", args=["lab", "tone-7"]), {"from_step": 2, "to_step": 2}
    )
    assert len(answer.context["rows"]) == 16


def test_rollout_trained_in_several_steps_is_listed_once(alice_client, seeded):
    item = (
        StepItem.objects.filter(step__run=seeded.run, step__number=1)
        .select_related("experience")
        .first()
    )
    StepItem.objects.create(
        step=seeded.run.steps.get(number=2), experience=item.experience, position=99
    )
    answer = alice_client.get(
        reverse("rollouts", args=["lab", "tone-7"]), {"from_step": 1, "to_step": 2}
    )
    shown = [row["rollout"].pk for row in answer.context["rows"]]
    assert item.experience.rollout_id in shown and len(shown) == len(set(shown))


def test_rollout_retired_as_too_old_is_listed_as_dropped(alice_client, seeded):
    retired = Experience.objects.filter(run=seeded.run, state="ready").first()
    Experience.objects.filter(pk=retired.pk).update(state="dropped", reason="too old")
    answer = alice_client.get(reverse("rollouts", args=["lab", "tone-7"]), {"fate": "dropped"})
    assert retired.rollout_id in [row["rollout"].pk for row in answer.context["rows"]]


@pytest.mark.parametrize("query", [{"fate": "eaten"}, {"from_step": "x"}, {"to_step": "-1"}])
def test_invalid_filter_shows_an_error_and_filters_nothing(alice_client, seeded, query):
    answer = alice_client.get(reverse("rollouts", args=["lab", "tone-7"]), query)
    assert (
        answer.status_code == 200
        and answer.context["form"].errors
        and len(answer.context["rows"]) == 50
    )


def test_rollout_list_pages_forward_and_back_by_key(alice_client, seeded):
    address = reverse("rollouts", args=["lab", "tone-7"])
    first = alice_client.get(address).context["page"]
    second = alice_client.get(address + first.older).context["page"]
    back = alice_client.get(address + second.newer).context["page"]
    assert [r.pk for r in back.rows] == [r.pk for r in first.rows] and second.rows[
        0
    ].pk < first.rows[-1].pk


@pytest.mark.parametrize("query", ["?before=x", "?after=-1", "?before=" + "9" * 30])
def test_page_cursor_that_is_not_an_id_returns_404(alice_client, seeded, query):
    assert alice_client.get(reverse("rollouts", args=["lab", "tone-7"]) + query).status_code == 404


def test_empty_run_list_shows_instructions_that_suit_each_role(client, cast):
    client.force_login(cast.alice)
    assert reverse("run-new") in page(client, "runs")
    client.force_login(cast.carol)
    strangers = page(client, "runs")
    assert "No runs yet" in strangers and "manage.py" not in strangers
    client.force_login(cast.admin)
    assert "manage.py runs create" in page(client, "runs")


def test_empty_taskset_list_shows_instructions_that_suit_each_role(client, cast):
    client.force_login(cast.alice)
    assert reverse("taskset-imports", args=["lab"]) in page(client, "tasksets")
    client.force_login(cast.carol)
    strangers = page(client, "tasksets")
    assert "No tasksets yet" in strangers and "manage.py" not in strangers
    client.force_login(cast.admin)
    assert "manage.py taskset generate" in page(client, "tasksets")


def test_taskset_page_does_not_show_answers(alice_client, seeded):
    html = page(alice_client, "taskset", "lab", "tone")
    assert "broken" in html and "{&#x27;object" not in html and "answer" not in html


def test_a_tokens_secret_is_shown_once_and_works(alice_client, seeded):
    answer = alice_client.post(reverse("issue-token"), {"name": "notebook", "scopes": ["read"]})
    secret = answer.context["secret"]
    assert secret in answer.content.decode() and secret not in page(alice_client, "settings")
    assert Token.objects.presented(secret).user == seeded.alice


def test_token_without_scopes_is_rejected_with_a_message(alice_client, seeded):
    answer = alice_client.post(reverse("issue-token"), {"name": "notebook"})
    assert answer.status_code == 422 and "Choose at least one" in answer.content.decode()


def test_revoked_token_does_not_authenticate(alice_client, seeded):
    token, secret = Token.issue(seeded.alice, "notebook", ["read"])
    alice_client.post(reverse("revoke-token", args=[token.pk]))
    assert Token.objects.presented(secret) is None


def test_revoking_another_users_token_returns_404(alice_client, seeded):
    token, secret = Token.issue(seeded.bob, "notebook", ["read"])
    assert alice_client.post(reverse("revoke-token", args=[token.pk])).status_code == 404
    assert Token.objects.presented(secret)


def test_empty_rollout_list_and_taskset_page_suggest_the_next_step(client, alice, run, taskset):
    client.force_login(alice)
    html = client.get(reverse("rollouts", args=["lab", run.slug])).content.decode()
    assert "An explorer starts the first group" in html and reverse("workers") in html
    assert (
        "Go to the first task"
        in client.get(reverse("taskset", args=["lab", "sort"]), {"from": "40"}).content.decode()
    )
