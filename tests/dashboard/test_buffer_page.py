"""The buffer page: groups by state over time, their outcomes, and the trainer's input."""

from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.buffer.models import Experience
from apps.dashboard import buffer_window
from apps.dashboard.buffer_flow import REASONS, list_flow_streams
from apps.dashboard.buffer_window import load_buffer_window
from apps.dashboard.histograms import build_histograms
from apps.dashboard.occupancy import draw_occupancy
from apps.dashboard.sankey import COLUMNS, ROOM, End, Stream, draw_sankey
from apps.pipelines.models import CutRollout
from apps.runs.models import Run
from apps.runs.parsing import parse_config
from tests.dashboard.growing import grow_rollouts


@pytest.fixture
def alice_client(client, seeded):
    client.force_login(seeded.alice)
    return client


def address(slug: str = "tone-7", name: str = "run-buffer") -> str:
    return reverse(name, args=["lab", slug])


def page(client, slug: str = "tone-7") -> str:
    answer = client.get(address(slug))
    assert answer.status_code == 200
    return answer.content.decode()


def ends(run: Run) -> dict[tuple[str, str], int]:
    return {
        (stream.title, end.title): end.count
        for stream in list_flow_streams(load_buffer_window(run))
        for end in stream.ends
    }


# -- the flow


def test_every_rollout_is_counted_in_one_outcome(seeded):
    counted = ends(seeded.run)
    assert sum(counted.values()) == seeded.run.rollouts.count()
    assert counted["admitted", "trained"] == Experience.objects.filter(state="trained").count()
    assert (
        counted["admitted", "ready for training"]
        == Experience.objects.filter(state="ready").count()
    )
    assert (
        counted["in progress", "being sampled"]
        == seeded.run.rollouts.filter(state="sampling").count()
    )
    assert (
        counted["excluded", "failed: engine died"]
        == seeded.run.rollouts.filter(state="failed").count()
    )


def test_reasons_that_differ_only_in_numbers_are_counted_together(seeded):
    ready = list(Experience.objects.filter(state="ready").order_by("pk"))
    for number, one in enumerate(ready):
        Experience.objects.filter(pk=one.pk).update(
            state="dropped", reason=f"stale: older than version {number}"
        )
    assert ends(seeded.run)["admitted", "dropped: stale: older than version …"] == len(ready) > 1


def test_operator_is_shown_with_the_rollouts_it_removed(alice_client, seeded):
    one = (
        seeded.run.rollouts.filter(group__state="admitted", state="finished").order_by("pk").first()
    )
    one.experiences.all().delete()
    CutRollout.objects.create(
        run=seeded.run, rollout=one, place=0, operator="length", reason="9 tokens, more than 3"
    )
    assert ends(seeded.run)["excluded", "length: 9 tokens, more than 3"] == 1
    assert "?operator=length" in page(alice_client)


def test_rare_reasons_are_combined(seeded):
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
    failed = seeded.run.rollouts.filter(group__state="admitted", state="finished").order_by("pk")[
        : len(words)
    ]
    for one, reason in zip(list(failed), words, strict=True):
        one.experiences.all().delete()
        CutRollout.objects.create(
            run=seeded.run, rollout=one, place=0, operator=reason, reason="no"
        )
    [left_out] = [
        stream
        for stream in list_flow_streams(load_buffer_window(seeded.run))
        if stream.title == "excluded"
    ]
    assert len(left_out.ends) == REASONS + 1 and left_out.ends[-1].title.endswith("other reasons")
    assert sum(end.count for end in left_out.ends) == left_out.count > len(words)


def test_streams_are_as_wide_as_their_counts_and_do_not_overlap():
    ends = [End("a", 600, "good"), End("b", 1, "good")]
    drawing = draw_sankey(
        "drawn",
        [Stream("admitted", "good", ends), Stream("excluded", "bad", [End("c", 399, "bad")])],
    )
    heights = {node.title: node.height for node in drawing.nodes}
    assert (
        heights["drawn"] == ROOM
        and heights["a"] == pytest.approx(0.6 * ROOM)
        and heights["b"] == 1.0
    )
    leaves = sorted(
        (node for node in drawing.nodes if node.x == COLUMNS[2]), key=lambda node: node.y
    )
    assert [leaf.title for leaf in leaves] == ["a", "b", "c"]
    assert all(below.words_y >= above.words_y + drawing.row for above, below in pairwise(leaves))
    assert max(node.y + node.height for node in drawing.nodes) <= drawing.height


# -- over time, and histograms


def test_last_occupancy_equals_the_states_of_the_groups(seeded):
    last = {band.key: band.last for band in draw_occupancy(load_buffer_window(seeded.run)).bands}
    groups = seeded.run.groups
    ready = Experience.objects.filter(state="ready").values("group").distinct().count()
    judging = groups.filter(state__in=["scoring", "waiting", "judged"]).count()
    assert last == {
        "sampling": groups.filter(state="sampling").count(),
        "judging": judging,
        "ready": ready,
        "training": 0,
    }
    assert min(last["judging"], last["ready"]) > 0


def test_group_is_counted_from_opening_to_closing(seeded):
    opened, sampled, closed = (timezone.now() - timedelta(hours=hours) for hours in (4, 3, 2))
    seeded.run.groups.update(
        opened_at=opened, sampled_at=sampled, closed_at=closed, state="dropped", reason="too dull"
    )
    Experience.objects.all().delete()
    bands = {band.key: band for band in draw_occupancy(load_buffer_window(Run.objects.get())).bands}
    count = seeded.run.groups.count()
    assert (bands["sampling"].highest, bands["judging"].highest, bands["ready"].highest) == (
        count,
        count,
        0,
    )
    assert {band.last for band in bands.values()} == {0}


def test_histograms_count_the_admitted_experiences(seeded):
    metrics = {one.title: one for one in build_histograms(load_buffer_window(seeded.run))}
    kept = Experience.objects.filter(kind="usual").exclude(state="dropped")
    assert list(metrics) == ["Rewards", "Length", "Age", "Staleness, versions"]
    for one in metrics.values():
        assert sum(bar.count for bar in one.bars) == kept.count()
        assert sum(bar.ready for bar in one.bars) == kept.filter(state="ready").count()


def test_each_value_is_counted_in_its_bin(seeded):
    Experience.objects.update(reward=0.25)
    newest = Experience.objects.order_by("pk").last()
    Experience.objects.filter(pk=newest.pk).update(reward=1.0)
    [rewards, *_] = build_histograms(load_buffer_window(seeded.run))
    counts = {bar.words: bar.count for bar in rewards.bars if bar.count}
    assert (
        counts == {"0.20 to 0.30": Experience.objects.count() - 1, "0.90 to 1.00": 1}
        and rewards.middle == "0.25"
    )


def test_staleness_is_shown_in_versions(seeded):
    Experience.objects.filter(state="ready").update(weight_version=0)
    behind = build_histograms(load_buffer_window(seeded.run))[-1]
    ready = {bar.words: bar.ready for bar in behind.bars if bar.ready}
    assert ready == {str(seeded.run.step): Experience.objects.filter(state="ready").count()}


# -- the page


def test_page_shows_charts_and_the_same_numbers(alice_client, seeded):
    html = page(alice_client)
    for words in (
        "Groups by state",
        "Outcomes",
        "Trainer input",
        "Rollout search",
    ):
        assert words in html
    assert (
        f'<b class="num">{seeded.run.rollouts.count()}</b> sampled' in html
        and "<polygon" in html
        and "dropped: " not in html
    )
    assert "?fate=trained" in html and "Sampled by version" in html


def test_run_without_groups_is_reported(alice_client, seeded):
    Run.create(project=seeded.run.project, slug="new", title="New", plan=seeded.run.settings)
    assert "No groups yet" in page(alice_client, "new")


def test_run_on_offline_data_has_no_buffer(alice_client, seeded):
    data = {
        "policy": "tone",
        "taskset": "tone",
        "steps": 3,
        "rewards": [],
        "algorithm": {"name": "sft"},
    }
    plan = parse_config(data | {"snapshot": {"source": "demonstrations"}})
    Run.create(project=seeded.run.project, slug="lessons", title="Lessons", plan=plan)
    assert "trains on offline data" in page(alice_client, "lessons")


def test_only_the_newest_groups_are_read_and_the_page_reports_it(alice_client, seeded, monkeypatch):
    monkeypatch.setattr(buffer_window, "GROUPS", 3)
    window = load_buffer_window(seeded.run)
    newest = seeded.run.groups.order_by("-draw_index").values_list("pk", flat=True)[:3]
    assert not window.is_whole and [group.pk for group in window.groups] == list(newest)
    assert {fate.group.pk for fate in window.fates} == set(newest) and "newest 3 groups" in page(
        alice_client
    )


def queries(client) -> int:
    with CaptureQueriesContext(connection) as caught:
        page(client)
    return len(caught)


def test_number_of_queries_does_not_grow_with_the_run(alice_client, seeded):
    few = queries(alice_client)
    grow_rollouts(seeded.run, 300)
    assert queries(alice_client) <= few <= 20


def test_blind_rater_sees_no_buffer_data(client, seeded):
    client.force_login(seeded.bob)
    html = page(client)
    assert (
        "You rate this run blind" in html and 'id="outcomes"' not in html and "census" not in html
    )


def test_run_and_pipeline_pages_link_to_the_buffer(alice_client, seeded):
    for name in ("run", "run-pipeline"):
        assert address() in alice_client.get(address(name=name)).content.decode()
