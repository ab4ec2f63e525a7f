"""The trace from weights to ratings and back, and the pages that show it."""

import json
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import User
from apps.buffer.models import Experience, StepItem
from apps.feedback.models import Item, RaterModel, Rating
from apps.feedback.quality.decisions import newest_decisions
from apps.feedback.ratings.stars import Stars, give
from apps.feedback.ratings.withdrawal import withdraw_decision
from apps.feedback.rewrite_lessons import keep_rewrite
from apps.lineage.tracing import forward, learned_by, trace_weights
from apps.rewards.models import Reward
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from tests.seeding import seed_run


def address(name: str, *more: object) -> str:
    return reverse(name, args=["lab", "tone-7", *more])


def page(client, name: str, *more: object, **query: object) -> str:
    answer = client.get(address(name, *more), query)
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.fixture
def alice_client(client, seeded):
    client.force_login(seeded.alice)
    return client


def trained(run: Run, number: int) -> set[int]:
    """Return the ids of the groups in the batch of a step."""
    return set(
        StepItem.objects.filter(step__run=run, step__number=number).values_list(
            "experience__group", flat=True
        )
    )


def test_version_is_traced_to_exactly_the_ratings_of_its_steps(seeded):
    shapings, more = trace_weights(seeded.run.weight_versions.get(version=2))
    assert ([shaping.step.number for shaping in shapings], more) == ([2, 1], False)
    for shaping in shapings:
        groups = trained(seeded.run, shaping.step.number)
        wanted = Rating.objects.filter(rollout__group__in=groups, is_late=False, is_current=True)
        assert (
            {rating.pk for rating in shaping.ratings}
            == set(wanted.values_list("pk", flat=True))
            != set()
        )
        assert shaping.rollouts == Experience.objects.filter(group__in=groups).count()


def test_traced_steps_are_paged_by_number(seeded):
    newest = seeded.run.weight_versions.get(version=3)
    first, more = trace_weights(newest, limit=2)
    rest, none = trace_weights(newest, before=first[-1].step.number, limit=2)
    assert [[s.step.number for s in part] for part in (first, rest)] == [[3, 2], [1]]
    assert (more, none) == (True, False)


def test_late_rating_is_not_in_the_trace(seeded):
    rollout = Rollout.objects.filter(group__in=trained(seeded.run, 1)).first()
    late = give(seeded.bob, Stars(rollout.pk, 5, uuid.uuid4()))
    assert late.is_late
    assert late.pk not in {
        rating.pk
        for shaping in trace_weights(seeded.run.weight_versions.get(version=3))[0]
        for rating in shaping.ratings
    }
    assert forward(late).first is None


def trained_on(run: Run, rater: User) -> list[Rating]:
    """Return timely ratings by this person on items that a step trained on; the newest first."""
    groups = StepItem.objects.filter(step__run=run).values("experience__group")
    return list(
        Rating.objects.filter(rater=rater, item__group__in=groups, is_late=False).order_by("-pk")
    )


def test_rating_changed_or_withdrawn_after_training_stays_in_the_trace(seeded):
    changed, taken_back = trained_on(seeded.run, seeded.bob)[:2]
    newest = seeded.run.weight_versions.get(version=3)
    before = [forward(rating).uses for rating in (changed, taken_back)]
    assert all(before)
    again = give(seeded.bob, Stars(changed.rollout_id, 6 - changed.stars, uuid.uuid4()))
    withdraw_decision(seeded.bob, taken_back.client_uuid, uuid.uuid4())
    for rating, uses in zip((changed, taken_back), before, strict=True):
        rating.refresh_from_db()
        assert not rating.is_current and forward(rating).uses == uses
    shown = {rating.pk for shaping in trace_weights(newest)[0] for rating in shaping.ratings}
    assert {changed.pk, taken_back.pk} <= shown and again.pk not in shown
    assert forward(again).uses == []


def test_rating_withdrawn_in_time_is_not_in_the_trace(seeded):
    rating = trained_on(seeded.run, seeded.bob)[0]
    Reward.objects.filter(rollout__run=seeded.run, scorer="people").delete()
    assert forward(rating).uses
    withdraw_decision(seeded.bob, rating.client_uuid, uuid.uuid4())
    Rating.objects.filter(replaces=rating).update(is_late=False)
    rating.refresh_from_db()
    assert forward(rating).uses == []


def test_rater_model_learned_from_a_rating_withdrawn_after_the_fit(seeded):
    rating = trained_on(seeded.run, seeded.bob)[0]
    newest = Rating.objects.filter(run=seeded.run).order_by("pk").last()
    knew = RaterModel.objects.create(
        run=seeded.run, number=1, kind="ridge", decisions=1, last_rating=newest
    )
    withdraw_decision(seeded.bob, rating.client_uuid, uuid.uuid4())
    later = RaterModel.objects.create(
        run=seeded.run,
        number=2,
        kind="ridge",
        decisions=1,
        last_rating=Rating.objects.order_by("pk").last(),
    )
    rating.refresh_from_db()
    assert (rating in learned_by(knew), rating in learned_by(later)) == (True, False)
    assert forward(rating).model == knew


def test_rating_is_traced_to_its_steps_and_versions(seeded):
    [group, *_] = trained(seeded.run, 2)
    rating = Rating.objects.filter(rollout__group=group, is_late=False).first()
    found = forward(rating)
    assert [(use.step.number, use.version.version) for use in found.uses] == [(2, 2)]
    assert found.first.step.number == 2


def test_comparison_is_traced_through_all_compared_rollouts(seeded):
    [group, *_] = trained(seeded.run, 1)
    judged = Reward.objects.filter(rollout__group=group, scorer="people").order_by("rollout")
    members = list(judged.values_list("rollout", flat=True))
    item = Item.objects.create(run=seeded.run, group_id=group, form="pairwise", members=members)
    rating = Rating.objects.create(
        item=item,
        run=seeded.run,
        rater=seeded.bob,
        form="pairwise",
        answer={"preference": 1},
        shown=members,
        client_uuid=uuid.uuid4(),
    )
    assert forward(rating).uses == []  # people's rewards there were made without it
    for reward in Reward.objects.filter(rollout__in=members, scorer="people"):
        reward.details["ratings"].append(rating.pk)
        reward.save()
    [use] = forward(rating).uses
    assert {item.experience.rollout_id for item in use.items} == set(members)
    assert rating in {
        rating
        for shaping in trace_weights(seeded.run.weight_versions.get(version=1))[0]
        for rating in shaping.ratings
    }


def test_rating_is_traced_to_steps_through_the_rater_model(seeded):
    first = Rating.objects.filter(run=seeded.run).order_by("pk").first()
    model = RaterModel.objects.create(
        run=seeded.run, number=4, kind="ridge", decisions=1, last_rating=first
    )
    RaterModel.objects.filter(pk=model.pk).update(fitted_at="2020-01-01T00:00Z")
    rollout = Rollout.objects.filter(group__in=trained(seeded.run, 2)).first()
    Reward.objects.create(
        rollout=rollout, source="model", scorer="rater_model", value=0.5, details={"rater_model": 4}
    )
    found = forward(first)
    assert (found.model.number, found.by_model.step.number) == (4, 2)
    assert trace_weights(seeded.run.weight_versions.get(version=2))[0][0].models == {4: 1}
    assert list(learned_by(model)) == [first]


def test_rewrite_is_traced_to_the_steps_that_imitated_it(seeded):
    from apps.feedback.models import Demonstration, ExpertAnswer
    from apps.rollouts.models import Group

    rollout = Rollout.objects.filter(group__in=trained(seeded.run, 1)).first()
    keep_rewrite(seeded.bob, seeded.run, rollout.group, rollout.pk, "As it should be.")
    rating = Rating.objects.create(
        run=seeded.run,
        rollout=rollout,
        rater=seeded.bob,
        form="rewrite",
        answer={"text": "As it should be."},
        shown=[rollout.pk],
        client_uuid=uuid.uuid4(),
        is_current=True,
    )
    home = Group.objects.create(
        run=seeded.run, task=rollout.group.task, size=0, state="admitted", opened_version=0
    )
    answer = Rollout.objects.create(
        run=seeded.run,
        group=home,
        sample_index=0,
        origin="expert",
        state="finished",
        text="As it should be.",
    )
    ExpertAnswer.objects.create(
        demonstration=Demonstration.objects.get(), run=seeded.run, rollout=answer
    )
    learned = Experience.objects.create(
        run=seeded.run, group=home, rollout=answer, kind="expert", advantage=0, weight_version=0
    )
    step = seeded.run.steps.get(number=3)
    StepItem.objects.create(step=step, experience=learned, position=999)
    assert [use.step.number for use in forward(rating).answers] == [3]
    [newest, *_] = trace_weights(seeded.run.weight_versions.get(version=3))[0]
    assert [shown.answer for shown in newest.answers] == ["As it should be."]


def test_trace_page_links_to_the_ratings(alice_client, seeded):
    html = page(alice_client, "run-trace")
    assert "Trace of version 3" in html
    rating = Rating.objects.filter(
        rollout__group__in=trained(seeded.run, 3), is_current=True
    ).first()
    assert reverse("rating", args=[rating.pk]) in html


def test_rating_page_shows_the_steps_that_used_it(alice_client, seeded):
    rating = Rating.objects.filter(
        rollout__group__in=trained(seeded.run, 2), is_current=True
    ).first()
    html = alice_client.get(reverse("rating", args=[rating.pk])).content.decode()
    assert "First used in step" in html and "v2" in html
    assert f"Replay without {rating.rater}" in html


def test_blind_rater_sees_only_whether_an_own_rating_arrived_in_time(client, seeded):
    client.force_login(seeded.bob)
    own = trained_on(seeded.run, seeded.bob)[0]
    html = client.get(reverse("rating", args=[own.pk])).content.decode()
    assert "arrived in time" in html and "hidden for blind rating" in html
    assert not any(
        words in html for words in ("First used", "step <b", "advantage", "Replay without")
    )
    told = client.get(f"/api/v1/ratings/{own.pk}/trace/").json()
    assert told.pop("is_late") is False and {told.pop("rating"), told.pop("run")} == {
        own.pk,
        seeded.run.pk,
    }
    assert set(told.values()) == {None} and "uses" in told
    seeded.run.config["people"]["blind"] = False
    seeded.run.save()
    assert "First used in step" in client.get(reverse("rating", args=[own.pk])).content.decode()
    assert client.get(f"/api/v1/ratings/{own.pk}/trace/").json()["uses"]
    others = Rating.objects.filter(run=seeded.run).exclude(rater=seeded.bob).first()
    assert client.get(reverse("rating", args=[others.pk])).status_code == 404


@pytest.mark.parametrize("before", ["x", "-1", "1e9", "9" * 12])
def test_trace_cursor_that_is_not_a_step_returns_404(alice_client, before):
    assert alice_client.get(address("run-trace"), {"before": before}).status_code == 404


def test_queries_do_not_grow_with_the_run(client, seeded):
    client.force_login(seeded.alice)

    def counted(name: str, slug: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(reverse(name, args=["lab", slug])).status_code == 200
        return len(captured)

    names = ("run-trace", "run-bought", "run-exports", "run-bought-curves")
    few = {name: counted(name, "tone-7") for name in names}
    seed_run("tone-9", steps=10, tasks=40, password=None)
    many = {name: counted(name, "tone-9") for name in names}
    assert {name: (few[name], many[name]) for name in names if many[name] > few[name]} == {}
    assert max(few.values()) <= 30


# -- exclude and replay


def test_replay_form_previews_the_new_run_and_creates_nothing(alice_client, seeded):
    html = page(alice_client, "run-replay", raters="bob")
    assert "Preview" in html and "tone-7-without-bob" in html and "Starts from" in html
    assert Run.objects.count() == 1


def test_submitting_the_replay_form_creates_and_opens_the_new_run(alice_client, seeded):
    answer = alice_client.post(
        address("run-replay"), {"raters": "bob", "slug": "without", "start": "on"}, follow=True
    )
    run = Run.objects.get(slug="without")
    assert answer.redirect_chain[-1][0] == reverse("run", args=["lab", "without"])
    assert (run.is_live, run.settings.replay.without_raters, run.settings.replay.run) == (
        True,
        ("bob",),
        "tone-7",
    )
    assert not run.settings.samples


def test_replay_without_a_rater_who_had_no_influence_is_rejected(alice_client, seeded):
    Rating.objects.filter(rater=seeded.bob).update(is_late=True)
    assert "Bob had no influence on the weights" in page(alice_client, "run-replay", raters="bob")


def test_replay_with_an_invalid_task_number_shows_an_error(alice_client):
    assert "Enter task numbers" in page(alice_client, "run-replay", tasks="three")


def test_replay_with_a_name_in_use_is_rejected(alice_client, seeded):
    answer = alice_client.post(address("run-replay"), {"raters": "bob", "slug": "tone-7"})
    assert answer.status_code == 409 and "already exists" in answer.content.decode()


# -- exports and the page of rating time


def test_exports_are_downloaded_as_files(alice_client, seeded):
    answer = alice_client.get(
        address("run-export", "votes", "jsonl"), {"pseudonyms": "on", "form": "stars"}
    )
    rows = [json.loads(line) for line in b"".join(answer.streaming_content).splitlines()]
    assert len(rows) == Rating.objects.filter(run=seeded.run).count()
    assert all(row["rater"].startswith("rater-") for row in rows)
    assert answer["Content-Disposition"] == 'attachment; filename="lab-tone-7-votes.jsonl"'
    parquet = alice_client.get(address("run-export", "groups", "parquet"))
    assert b"".join(parquet.streaming_content)[:4] == b"PAR1"


def test_invalid_date_filter_of_an_export_is_reported(alice_client):
    answer = alice_client.get(address("run-export", "votes", "jsonl"), {"since": "yesterday"})
    assert (answer.status_code, answer.content.decode()[:6]) == (422, "since:")


def test_time_page_counts_people_and_simulated_raters_separately(alice_client, seeded):
    Rating.objects.filter(run=seeded.run).update(seconds=30)
    html = page(alice_client, "run-bought")
    assert "simulated</span>" in html
    from apps.dashboard.human_cost_benefit import bought

    found = bought(seeded.run, newest_decisions(seeded.run))
    assert found.people.per_hour == pytest.approx(120)
    assert (
        found.people.decisions
        == Rating.objects.counting().filter(run=seeded.run, rater__is_simulated=False).count()
    )
    assert found.minutes_each == pytest.approx(found.people.decisions * 0.5 / found.accepted)
    assert 0 < found.coverage < 1


def test_largest_gap_between_people_and_scorers_comes_first(seeded):
    from apps.dashboard.human_cost_benefit import bought

    rewards = Reward.objects.filter(rollout__run=seeded.run, is_current=True)
    rollout = (
        rewards.filter(source="human")
        .exclude(details__has_key="is_late")
        .order_by("pk")
        .last()
        .rollout_id
    )
    rewards.filter(rollout=rollout, source="human").update(value=0)
    rewards.filter(rollout=rollout).exclude(source="human").update(value=1)
    widest = bought(seeded.run, newest_decisions(seeded.run)).parting.widest
    assert (widest[0].rollout.pk, widest[0].size) == (rollout, 1)
    assert [gap.size for gap in widest] == sorted((gap.size for gap in widest), reverse=True)


def test_time_page_without_ratings_says_so(alice_client, seeded):
    Rating.objects.all().delete()
    assert "No ratings yet" in page(alice_client, "run-bought")


# -- REST


def test_rest_traces_from_weights_to_ratings_and_back(alice_client, seeded):
    found = alice_client.get(f"/api/v1/runs/{seeded.run.pk}/trace/2/", {"limit": 1}).json()
    assert ([item["step"] for item in found["items"]], found["more"]) == ([2], True)
    rating = found["items"][0]["ratings"][0]["id"]
    assert alice_client.get(f"/api/v1/ratings/{rating}/trace/").json()["uses"] == [
        {"step": 2, "version": 2}
    ]


def test_rest_creates_replays(alice_client, seeded):
    path = f"/api/v1/runs/{seeded.run.pk}/replay/"
    made = alice_client.post(
        path, {"without_raters": ["bob"], "slug": "rest"}, content_type="application/json"
    )
    assert (made.status_code, made.json()["config"]["replay"]["without_raters"]) == (201, ["bob"])
    again = alice_client.post(path, {"without_raters": ["nobody"]}, content_type="application/json")
    assert (again.status_code, again.json()["errors"].keys()) == (422, {"without_raters"})


def test_rest_returns_exports(alice_client, seeded):
    answer = alice_client.get(f"/api/v1/runs/{seeded.run.pk}/exports/pairs/", {"file": "parquet"})
    assert b"".join(answer.streaming_content)[:4] == b"PAR1"
    assert alice_client.get(f"/api/v1/runs/{seeded.run.pk}/exports/secrets/").status_code == 404
