"""The charts of a run's page: windows, axes, files, updates, and who may see them."""

import csv
import io
from datetime import timedelta

import pytest
from django.test import AsyncRequestFactory
from django.urls import reverse
from django.utils import timezone

from apps.dashboard.reconciliation import reconcile
from apps.dashboard.views.run_curves import run_curves_csv
from apps.rollouts.models import Group
from apps.runs.models import Metric, MetricSpan, Run, TrainStep

HERE = ["lab", "tone-7"]


@pytest.fixture
def look(client, seeded):
    client.force_login(seeded.alice)

    def get(name: str, *more: str, **query: object):
        return client.get(reverse(name, args=[*HERE, *more]), query)

    return get


@pytest.fixture
def long(seeded) -> Run:
    """Return the run at step 6,000 with two steps per weight version; `kl` equals the step, with a
    peak at 4,321.
    """
    run = seeded.run
    began = timezone.now() - timedelta(hours=5)
    Metric.objects.filter(run=run).delete()
    run.steps.exclude(number__in=run.steps.values("items__step__number")).delete()
    known = set(run.steps.values_list("number", flat=True))
    TrainStep.objects.bulk_create(
        TrainStep(
            run=run,
            number=n,
            version=(n - 1) // 2,
            fence=1,
            state="committed",
            committed_at=began + timedelta(seconds=n),
        )
        for n in range(1, 6_001)
        if n not in known
    )
    Metric.objects.bulk_create(
        Metric(run=run, step=n, name="kl", value=9_000.0 if n == 4_321 else float(n))
        for n in range(1, 6_001)
    )
    Run.objects.filter(pk=run.pk).update(
        step=6_000, planned_steps=6_000, config=run.config | {"sync_interval": 2, "steps": 6_000}
    )
    run.refresh_from_db()
    MetricSpan.fill(run)
    return run


def test_long_window_is_drawn_as_means_with_minimum_and_maximum(look, long):
    said = look("run-curves", points=100).json()
    kl = said["series"]["kl"]
    assert said["wide"] == 64 and len(said["steps"]) == 94 and said["steps"][:2] == [64, 128]
    assert (kl["y"][0], kl["low"][0], kl["high"][0]) == (32.5, 1, 64)
    assert max(kl["high"]) == 9_000


def test_a_zoomed_window_has_every_step(look, long):
    said = look("run-curves", from_step=4_300, to_step=4_340).json()
    assert said["wide"] == 1 and said["steps"] == list(range(4_300, 4_341))
    assert list(said["series"]["kl"]) == ["y"] and said["series"]["kl"]["y"][21] == 9_000


def test_version_axis_merges_the_steps_of_a_version_into_one_point(look, long):
    said = look("run-curves", x="version", from_step=5_801).json()
    assert said["x"][:3] == [2900, 2901, 2902] and said["steps"][:3] == [5802, 5804, 5806]
    assert [said["series"]["kl"][part][0] for part in ("low", "y", "high")] == [5801, 5801.5, 5802]


def test_cursor_in_the_middle_of_a_version_returns_the_whole_version(look, long):
    said = look("run-curves", x="version", after=5_999).json()
    assert (said["steps"], said["x"], said["series"]["kl"]["low"]) == ([6000], [2999], [5999])


def test_time_axis_places_steps_at_their_commit_time(look, long):
    said = look("run-curves", x="time", from_step=5_990).json()
    assert said["x"] == sorted(said["x"]) and said["x"][-1] - said["x"][0] == pytest.approx(10)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"x": "moon"}, "x"),
        ({"from_step": 0}, "from_step"),
        ({"from_step": 9, "to_step": 3}, "to_step"),
        ({"points": 10**9}, "points"),
        ({"names": "a b"}, "names"),
        ({"names": [str(n) for n in range(61)]}, "names"),
    ],
)
def test_invalid_window_is_rejected_with_its_field(look, query, field):
    answer = look("run-curves", **query)
    assert answer.status_code == 400 and list(answer.json()["errors"]) == [field]


def test_configuration_changes_are_marked_on_every_axis(look, seeded):
    seeded.run.change_config(seeded.alice, max_staleness=1)
    for axis, place in (("step", 3), ("version", 2)):
        [mark] = look("run-curves", x=axis).json()["changes"]
        assert (mark["step"], mark["x"], mark["words"]) == (3, place, "max_staleness 2 → 1")


def test_page_shows_its_curves_without_javascript(look):
    html = look("run").content.decode()
    assert html.count('<svg class="sketch"') > 10 and "<polyline" in html
    assert 'data-value="entropy">' in html and 'data-value="entropy"></b>' not in html


def test_chart_settings_in_the_query_are_applied_and_kept(look):
    html = look(
        "run", x="time", also="loss", chart="entropy", smooth="0.5", from_step=2
    ).content.decode()
    assert 'data-axis="time" href="?x=time' in html and 'aria-current="true">wall clock' in html
    assert (
        'data-curve="also-loss"' in html and '<div class="curve large" data-curve="entropy"' in html
    )
    assert (
        '<input type="hidden" name="smooth" value="0.5">' in html
        and 'name="from_step" min="1" inputmode="numeric" placeholder="1" value="2"' in html
    )


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"x": "moon"}, "x: "),
        ({"chart": "none"}, "chart: "),
        ({"also": "none"}, "also: metric"),
    ],
)
def test_page_reports_chart_settings_that_it_cannot_apply(look, query, words):
    answer = look("run", **query)
    assert answer.status_code == 200 and words in answer.content.decode()


def test_a_run_without_a_step_has_a_page_and_no_points(look, seeded):
    Metric.objects.all().delete()
    Run.objects.filter(pk=seeded.run.pk).update(step=0)
    assert "The curve starts with the first step." in look("run").content.decode()
    assert look("run-curves").json()["series"] == {}


def test_pulse_returns_only_what_changed(look, seeded):
    first = look("run-pulse", after=2, part=["now:", "beside:"]).json()
    assert (
        first["curves"]["steps"] == [3]
        and set(first["parts"]) == {"now", "beside"}
        and "changes" not in first
    )
    had = [f"{name}:{part['digest']}" for name, part in first["parts"].items()]
    assert look("run-pulse", after=3, part=had).json() == {"step": 3, "parts": {}}
    seeded.run.pause(by=seeded.alice)
    assert "Paused" in look("run-pulse", after=3, part=had).json()["parts"]["now"]["html"]


def test_unchanged_part_is_not_sent_again(client, look):
    answer = look("run-part", "beside")
    again = client.get(answer.wsgi_request.path, headers={"if-none-match": answer["ETag"]})
    assert (
        again.status_code == 304
        and again.content == b""
        and answer["Cache-Control"] == "private, no-cache"
    )


@pytest.mark.parametrize("name", ["run-curves", "run-pulse"])
def test_blind_rater_gets_no_curve_points(client, seeded, name):
    client.force_login(seeded.bob)
    answer = client.get(reverse(name, args=HERE), {"after": 0, "marks": 1}).json()
    assert (
        answer["step"] == 3
        and not answer.get("series")
        and "curves" not in answer
        and not answer.get("changes")
    )
    assert client.get(reverse("run-curves-csv", args=HERE)).status_code == 403


def test_chart_file_contains_every_step_of_its_window(look, long):
    answer = look("run-curves-csv", names=["kl", "entropy"], from_step=4_320, to_step=4_322)
    rows = list(csv.reader(io.StringIO(answer.getvalue().decode())))
    assert rows[0] == ["step", "weight_version", "committed_at", "kl", "entropy"]
    assert [(row[0], row[1], row[3], row[4]) for row in rows[1:]] == [
        ("4320", "2159", "4320.0", ""),
        ("4321", "2160", "9000.0", ""),
        ("4322", "2160", "4322.0", ""),
    ]


def test_experience_census_matches_the_rows_and_is_reconciled(seeded):
    from apps.buffer.models import Experience

    census = Experience.objects.census(seeded.run)
    rows = Experience.objects.filter(run=seeded.run)
    assert (
        census == {state: rows.filter(state=state).count() for state in Experience.State.values}
        and census["trained"] > 0
    )
    Run.objects.filter(pk=seeded.run.pk).update(experiences_trained=1)
    assert any(
        "trained experiences, the rows" in words
        for words in reconcile()["trained experiences belong to committed steps"]
    )


def test_invalid_chart_settings_are_left_out_of_the_page_address(look):
    answer = look("run", x="moon", from_step="7", to_step="2", smooth="0.5", also="a b")
    assert answer.context["query"].address == "from_step=7&smooth=0.5"
    assert 'data-query="from_step=7&amp;smooth=0.5"' in answer.content.decode()


def test_charts_show_the_requested_window(look, long):
    whole, window = (
        look("run", chart="kl", **asked).context["overview"].large
        for asked in ({}, {"from_step": 4_300, "to_step": 4_310})
    )
    assert len(window.lines[0][1].split()) == 11 and len(whole.lines[0][1].split()) > 11


def test_reward_chart_has_a_line_for_each_reward_source(look, seeded):
    words = [words for _, words in look("run").context["overview"].large.chart.lines]
    assert words == ["mean", "● people", "○ simulated", "◆ rule", "▲ model", "■ environment"]
    Metric.objects.filter(run=seeded.run, name="reward_rule").delete()
    assert look("run").context["overview"].large.chart.lines[-1] == ("reward_machine", "scorers")


def test_run_without_raters_has_no_chart_of_ratings(look, seeded):
    charts = [sketch.chart.key for sketch in look("run").context["overview"].small]
    assert "people_per_h" in charts
    Metric.objects.filter(run=seeded.run, name__in=["people_per_h", "simulated_per_h"]).delete()
    people = seeded.run.config["people"] | {"per_group": 0}
    Run.objects.filter(pk=seeded.run.pk).update(config=seeded.run.config | {"people": people})
    assert "people_per_h" not in [
        sketch.chart.key for sketch in look("run").context["overview"].small
    ]


def test_page_shows_no_waiting_trainer_when_it_waits_for_nothing(look, seeded):
    assert "waiting for people to rate 4 groups" in look("run").content.decode()
    Run.objects.filter(pk=seeded.run.pk).update(waiting_on="")
    text = look("run").content.decode()
    assert "waiting for people to rate" not in text and "the trainer waits" not in text


def test_page_says_that_the_trainer_waits_for_replies(look, seeded):
    Group.objects.filter(run=seeded.run, state="waiting").update(state="dropped", reason="late")
    Run.objects.filter(pk=seeded.run.pk).update(waiting_on="2 more groups (1 being sampled)")
    assert "the trainer waits for replies" in look("run").content.decode()


def test_curves_csv_is_streamed_asynchronously(seeded, rf):
    """Check this because ASGI would hold the whole output of a plain iterator in memory."""
    request = AsyncRequestFactory().get("/", {"names": "kl"})
    request.user = seeded.alice
    assert run_curves_csv(request, *HERE).is_async
