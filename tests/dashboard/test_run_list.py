"""The list of runs: filters, orders, pages, and actions on selected runs."""

from collections.abc import Callable

import pytest
from django.urls import reverse

from apps.accounts.models import AuditEntry, Project
from apps.dashboard.reconciliation import reconcile
from apps.runs.costs import (
    CPU,
    GPU,
    JUDGE_READ,
    JUDGE_WROTE,
    PEOPLE,
    SAMPLED,
    load_costs,
    with_cost,
)
from apps.runs.models import Metric, Prices, Run, Usage
from tests.dashboard.growing import grow_runs


@pytest.fixture
def alice_client(client, seeded):
    client.force_login(seeded.alice)
    return client


def names(client, **query: str) -> list[str]:
    return [row.slug for row in client.get(reverse("runs"), query).context["page"].rows]


def done(client, act: str, *runs: Run, **fields: str) -> str:
    answer = client.post(
        reverse("runs-act"), {"act": act, "run": [run.pk for run in runs], **fields}, follow=True
    )
    assert answer.status_code == 200
    return answer.content.decode()


def walked(client, **query: str) -> tuple[list[str], list[str]]:
    """Return the runs of all pages from first to last, and back again from the last."""
    address = reverse("runs")
    there = []
    page = client.get(address, query).context["page"]
    pages = [page]
    while page.older:
        page = client.get(address + page.older).context["page"]
        pages.append(page)
    there = [row.pk for one in pages for row in one.rows]
    back = [row.pk for row in page.rows]
    while page.newer:
        page = client.get(address + page.newer).context["page"]
        back = [row.pk for row in page.rows] + back
    return there, back


ORDERS: dict[str, Callable[[Run], object]] = {
    "newest": lambda run: -run.pk,
    "step": lambda run: (-run.step, -run.pk),
    "reward": lambda run: (run.reward_now is None, -(run.reward_now or 0), -run.pk),
    "started": lambda run: (
        run.started_at is None,
        -(run.started_at.timestamp() if run.started_at else 0),
        -run.pk,
    ),
    "throughput": lambda run: (run.tokens_per_s_now is None, -(run.tokens_per_s_now or 0), -run.pk),
    "cost": lambda run: (
        -load_costs([run])[run.pk].gpu_hours - load_costs([run])[run.pk].cpu_hours,
        -run.pk,
    ),
    "owner": lambda run: (run.owner is None, run.owner.username if run.owner else "", run.pk),
    "name": lambda run: (run.slug, run.pk),
}


def test_every_sort_order_pages_through_all_runs_forward_and_back(alice_client, seeded):
    grow_runs(seeded.run, 60)
    some = list(Run.objects.exclude(pk=seeded.run.pk).order_by("pk"))
    for n, run in enumerate(some):
        metrics = {
            "reward_now": [None, 0.5, 0.25][n % 3],
            "tokens_per_s_now": [7.5, None, 12.0][n % 3],
        }
        Run.objects.filter(pk=run.pk).update(
            step=n % 3, owner=[None, seeded.bob, seeded.alice][n % 3], **metrics
        )
        Usage.add(
            run.pk,
            "worker",
            {f"trainer.{[GPU, CPU][n % 2]}": [0, 60, 120, 7200][n % 4], SAMPLED: 1000 * n},
        )
    Run.objects.filter(pk__in=[run.pk for run in some[::2]]).update(started_at=None)
    for sort, key in ORDERS.items():
        wanted = [run.pk for run in sorted(Run.objects.all(), key=key)]
        assert walked(alice_client, sort=sort) == (wanted, wanted), sort


def test_each_filter_finds_the_matching_run(alice_client, seeded, new_run_like):
    other = new_run_like("other", owner=seeded.bob)
    Run.objects.filter(pk=other.pk).update(notes="Kimi's penalty", tags=["long"], state="paused")
    for query in (
        {"words": "PENALTY"},
        {"tag": "#long"},
        {"owner": "bob"},
        {"state": "paused"},
        {"words": "othe"},
    ):
        assert names(alice_client, **query) == ["other"], query
    assert names(alice_client, policy="tone", taskset="tone") == ["other", "tone-7"]
    assert (
        names(alice_client, algorithm="grpo") == ["other", "tone-7"]
        and names(alice_client, algorithm="dpo") == []
    )
    assert names(alice_client, project="lab") == ["other", "tone-7"]
    assert names(alice_client, taskset="none-such") == []


def test_filters_offer_only_values_of_the_users_projects(alice_client, client, seeded):
    form = alice_client.get(reverse("runs")).context["form"]
    assert form.offered["owner"] == ["alice"]  # raters are not offered
    assert form.offered["policy"] == ["tone"] and form.offered["taskset"] == ["tone"]
    assert ("lab", "The lab") in form.fields["project"].choices
    client.force_login(seeded.carol)
    form = client.get(reverse("runs")).context["form"]
    assert (form.offered["policy"], [value for value, _ in form.fields["project"].choices]) == (
        [],
        [""],
    )


@pytest.fixture
def new_run_like(seeded):
    def make(slug: str, owner=None, **changes: object) -> Run:
        plan = type(seeded.run.settings).model_validate(seeded.run.config | changes)
        return Run.create(
            project=seeded.run.project, slug=slug, title="Another", plan=plan, owner=owner
        )

    return make


def test_blind_rater_cannot_search_or_read_notes_or_sort_by_reward(client, seeded):
    Run.objects.filter(pk=seeded.run.pk).update(notes="reward fell after step two")
    client.force_login(seeded.bob)
    assert names(client, words="fell") == [] and names(client, sort="reward") == []
    assert "reward fell" not in client.get(reverse("runs")).content.decode()
    assert (
        "reward fell"
        not in client.get(reverse("run-labels", args=["lab", "tone-7"])).content.decode()
    )


def test_page_cursor_of_a_run_outside_the_list_returns_404(client, seeded, new_run_like):
    """Check that paging from a hidden run's reward does not reveal which rewards are below it."""
    blind = new_run_like("blind")
    foreign = new_run_like("foreign")
    elsewhere = Project.objects.create(slug="elsewhere", title="Elsewhere")
    Run.objects.filter(pk=foreign.pk).update(project=elsewhere, reward_now=0.5)
    Run.objects.filter(pk=blind.pk).update(reward_now=0.5)
    open_config = seeded.run.config | {"people": seeded.run.config["people"] | {"blind": False}}
    Run.objects.filter(pk=seeded.run.pk).update(config=open_config, reward_now=0.25)
    client.force_login(seeded.bob)
    assert names(client, sort="reward") == ["tone-7"]
    for run in (blind, foreign):
        answer = client.get(reverse("runs"), {"sort": "reward", "before": run.pk})
        assert answer.status_code == 404 and "no longer exists" in answer.content.decode()


@pytest.mark.parametrize("query", [{"before": "x"}, {"after": "9" * 40}])
def test_invalid_page_cursor_returns_404_with_the_reason(alice_client, query):
    answer = alice_client.get(reverse("runs"), query)
    assert answer.status_code == 404 and "must be the id of a row" in answer.content.decode()


def test_archived_run_is_listed_only_on_request(alice_client, seeded):
    seeded.run.stop()
    assert "1 archived" in done(alice_client, "archive", seeded.run)
    assert (names(alice_client), names(alice_client, archived="only")) == ([], ["tone-7"])
    assert "1 restored" in done(alice_client, "restore", seeded.run)
    assert names(alice_client) == ["tone-7"]
    assert list(AuditEntry.objects.order_by("-pk").values_list("action", "by__username")[:2]) == [
        ("run restored", "alice"),
        ("run archived", "alice"),
    ]


def test_a_run_that_starts_leaves_the_archive(alice_client, new_run_like):
    other = new_run_like("other")
    done(alice_client, "archive", other)
    other.refresh_from_db()
    other.start()
    assert "other" in names(alice_client)


def test_selection_with_an_active_run_is_not_archived(alice_client, seeded, new_run_like):
    other = new_run_like("other")
    assert "stop it before you archive it" in done(alice_client, "archive", other, seeded.run)
    assert not Run.objects.filter(archived_at__isnull=False).exists()


def test_tags_are_added_and_removed_in_bulk(alice_client, seeded, new_run_like):
    other = new_run_like("other")
    assert "2 tagged" in done(alice_client, "tag", other, seeded.run, words="Long, kimi")
    assert set(Run.objects.values_list("tags", flat=True).distinct().get()) == {"kimi", "long"}
    assert "1 untagged" in done(alice_client, "untag", other, words="long")
    assert names(alice_client, tag="long") == ["tone-7"]


@pytest.mark.parametrize("words", ["", "a/b", "ü", "x" * 31, " ".join(f"t{n}" for n in range(21))])
def test_invalid_tag_is_rejected_with_a_message(alice_client, seeded, words):
    assert "Nothing was changed" in done(alice_client, "tag", seeded.run, words=words)
    assert Run.objects.get().tags == []


def test_action_without_selected_runs_shows_a_message(alice_client, seeded):
    assert "Select one or more runs first" in done(alice_client, "tag", words="long")


@pytest.mark.parametrize(
    ("act", "count", "words"),
    [
        ("compare", 9, "Select 1 to 8"),
        ("compare", 0, "Select 1 to 8"),
        ("clone", 2, "Select one to clone"),
    ],
)
def test_selecting_too_many_runs_shows_an_error_and_keeps_the_sort_order(
    alice_client, seeded, act, count, words
):
    grow_runs(seeded.run, 10)
    said = done(alice_client, act, *Run.objects.order_by("pk")[:count], query="sort=name")
    assert (
        f"{count} runs are selected. {words}" in said and '<option value="name" selected>' in said
    )


def test_rater_can_compare_visible_runs(client, seeded):
    client.force_login(seeded.bob)
    answer = client.post(reverse("runs-act"), {"act": "compare", "run": seeded.run.pk})
    assert answer["Location"] == f"{reverse('compare')}?runs=lab/tone-7"


def test_run_list_has_no_form_button_that_submits_by_get(alice_client, seeded):
    """Check this because a form sent by GET would put its CSRF token into the address."""
    assert 'formmethod="get"' not in alice_client.get(reverse("runs")).content.decode()


def test_raters_and_strangers_cannot_archive_a_run(client, seeded):
    client.force_login(seeded.bob)
    assert (
        client.post(reverse("runs-act"), {"act": "archive", "run": seeded.run.pk}).status_code
        == 403
    )
    client.force_login(seeded.carol)
    assert (
        client.post(reverse("runs-act"), {"act": "archive", "run": seeded.run.pk}).status_code
        == 404
    )


def test_tags_and_notes_are_written_on_the_runs_own_page(alice_client, seeded):
    address = reverse("run-labels", args=["lab", "tone-7"])
    assert (
        "Saved"
        in alice_client.post(
            address, {"tags": "long", "notes": "Why it was made"}, follow=True
        ).content.decode()
    )
    refused = alice_client.post(address, {"tags": "not ok!", "notes": "typed at length"})
    assert refused.status_code == 422 and "typed at length" in refused.content.decode()
    assert Run.objects.values_list("tags", "notes").get() == (["long"], "Why it was made")


def test_run_shows_the_newest_reward_that_was_recorded(seeded):
    run = seeded.run
    Metric.record(run, run.step + 1, {"reward_mean": 0.125})
    Metric.record(run, run.step + 2, {"loss": 1.0})
    Metric.record(run, 1, {"reward_mean": 0.875})  # a replay of an old step
    assert Run.objects.get().reward_now == 0.125


def test_run_shows_the_newest_throughput_that_was_recorded(seeded):
    run = seeded.run
    Metric.record(run, run.step + 1, {"explore_tokens_per_s": 640.0, "reward_mean": 0.5})
    Metric.record(run, run.step + 2, {"reward_mean": 0.25})
    assert Run.objects.values_list("tokens_per_s_now", "reward_now").get() == (640.0, 0.25)


def test_runs_are_sorted_by_money_where_their_project_has_prices(
    alice_client, seeded, new_run_like
):
    cheap = new_run_like("cheap")
    dear = new_run_like("dear")
    free = new_run_like("free")
    Usage.add(cheap.pk, "worker", {f"trainer.{CPU}": 7200.0})
    Usage.add(
        dear.pk,
        "worker",
        {PEOPLE: 3600.0, JUDGE_READ: 500.0, JUDGE_WROTE: 500.0, f"explorer.{GPU}": 36.0},
    )
    assert names(alice_client, sort="cost")[:2] == ["cheap", "dear"]
    Prices.objects.create(
        project=seeded.run.project, gpu_hour=2.0, cpu_hour=0.125, judge_tokens=1.5, person_hour=30.0
    )
    assert names(alice_client, sort="cost")[:2] == ["dear", "cheap"]
    costs = with_cost(Run.objects.order_by("pk")).values_list("pk", "cost")
    assert {pk: pytest.approx(cost) for pk, cost in costs} == {
        pk: one.money for pk, one in load_costs(Run.objects.all()).items()
    }
    assert with_cost(Run.objects.all()).get(pk=free.pk).cost == 0


def test_reconcile_reports_a_reward_that_is_not_the_newest(seeded):
    Run.objects.update(reward_now=9.5)
    assert "shows reward_mean 9.5" in reconcile()["runs show their latest metrics"][0]


def test_selecting_more_runs_than_the_limit_changes_nothing(alice_client, seeded):
    grow_runs(seeded.run, 101)
    assert "102 runs are selected. Select at most 100" in done(
        alice_client, "tag", *Run.objects.all(), words="long"
    )
    assert not Run.objects.exclude(tags=[]).exists()
    assert "102 runs are selected. Select 1 to 8 to compare" in done(
        alice_client, "compare", *Run.objects.all()
    )


def test_only_requested_and_visible_rows_are_refreshed(client, seeded):
    address = reverse("runs-now")
    client.force_login(seeded.alice)
    assert (
        f'data-run="{seeded.run.pk}"'
        in client.get(address, {"run": seeded.run.pk}).content.decode()
    )
    client.force_login(seeded.carol)
    assert client.get(address, {"run": seeded.run.pk}).content.strip() == b""
    assert client.get(address, {"run": "x"}).status_code == 404


def test_a_column_head_sorts_by_its_column_and_keeps_the_filters(alice_client, seeded):
    def shown(**query: object) -> str:
        return alice_client.get(reverse("runs"), query).content.decode()

    first = shown(owner="alice", before=seeded.run.pk + 1)
    assert 'href="?owner=alice&amp;sort=cost"' in first and 'aria-sort="' not in first
    assert '<th class="r hide-m" aria-sort="descending"' in shown(sort="cost")
    assert '<th class="hide-m" aria-sort="ascending"' in shown(sort="owner")


def test_runs_are_paused_and_resumed_together(alice_client, seeded, new_run_like):
    other = new_run_like("other")
    other.start()
    assert "2 paused" in done(alice_client, "pause", seeded.run, other)
    assert set(Run.objects.values_list("state", flat=True)) == {"paused"}
    assert "2 resumed" in done(alice_client, "resume", seeded.run, other)
    assert set(Run.objects.values_list("state", flat=True)) == {"running"}


def test_runs_whose_state_forbids_the_action_are_skipped_and_listed(
    alice_client, seeded, new_run_like
):
    fresh = new_run_like("fresh")
    said = done(alice_client, "start", seeded.run, fresh)
    assert "1 started" in said and "1 skipped" in said and seeded.run.slug in said
    fresh.refresh_from_db()
    assert fresh.state == Run.State.RUNNING


def test_resuming_without_paused_runs_changes_nothing_and_says_so(alice_client, seeded):
    said = done(alice_client, "resume", seeded.run)
    assert "Nothing was changed" in said and seeded.run.slug in said


def test_stopping_runs_requires_typing_their_number(alice_client, seeded, new_run_like):
    other = new_run_like("other")
    for count in ("", "3"):
        fields = {"act": "stop", "run": [seeded.run.pk, other.pk], "count": count}
        said = alice_client.post(reverse("runs-act"), fields).content.decode()
        assert 'name="count"' in said and seeded.run.slug in said and other.slug in said
    assert not Run.objects.filter(state="stopped").exists()
    assert "2 stopped" in done(alice_client, "stop", seeded.run, other, count="2")
    assert set(Run.objects.values_list("state", flat=True)) == {"stopped"}


def test_all_runs_that_match_the_filter_are_archived_at_once(alice_client, seeded, new_run_like):
    grown = [new_run_like(f"old-{number}") for number in range(30)]
    said = done(alice_client, "archive", all="1", query="words=old-")
    assert "30 archived" in said
    archived = Run.objects.exclude(archived_at=None)
    assert set(archived.values_list("pk", flat=True)) == {run.pk for run in grown}


def test_acting_on_all_matches_does_not_touch_runs_of_a_rater(client, seeded, new_run_like):
    client.force_login(seeded.bob)
    done(client, "archive", all="1")
    assert not Run.objects.exclude(archived_at=None).exists()


def test_acting_on_more_matching_runs_than_the_limit_changes_nothing(alice_client, seeded):
    grow_runs(seeded.run, 101)
    said = done(alice_client, "archive", all="1", query="archived=all")
    assert "Narrow the filter" in said and not Run.objects.exclude(archived_at=None).exists()


def test_a_project_without_runs_offers_its_first_one(client, alice, db):
    Project.create("Brand new", "brand-new", alice)
    client.force_login(alice)
    text = client.get(reverse("runs"), {"project": "brand-new"}).content.decode()
    assert "No runs in Brand new yet" in text
    assert f'href="{reverse("run-new")}?project=brand-new"' in text


def test_project_whose_runs_do_not_match_shows_no_matching_runs(alice_client, seeded):
    text = alice_client.get(reverse("runs"), {"project": "lab", "words": "zz"}).content.decode()
    assert "No matching runs" in text
    evaluated = {"project": "lab", "archived": "only"}
    assert "No matching runs" in alice_client.get(reverse("runs"), evaluated).content.decode()


def test_empty_run_list_tells_each_role_its_next_step(client, alice, bob, admin_user, project):
    offer = f'href="{reverse("run-new")}">New run</a>'
    seen = {}
    for person in (alice, bob, admin_user):
        client.force_login(person)
        text = client.get(reverse("runs")).content.decode()
        assert "No runs yet" in text
        seen[person.username] = ("Owners and researchers" in text, "make demo" in text)
        assert (offer in text) == (person != bob)
    assert seen == {"alice": (False, False), "bob": (True, False), "admin": (False, True)}
