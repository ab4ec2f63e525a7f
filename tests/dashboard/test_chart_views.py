"""The charts page of a run: one chart of any metrics, and views of it that users save."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import Membership, User
from apps.runs.models import ChartView, NotPossible, Run
from apps.runs.models.chart_views import MAX_VIEWS

HERE = ["lab", "tone-7"]


@pytest.fixture
def alice_client(client, seeded):
    client.force_login(seeded.alice)
    return client


@pytest.fixture
def viewer(seeded) -> User:
    """Create a member who does not rate, and so sees the ratings."""
    person = User.objects.create(username="vera")
    Membership.objects.create(project=seeded.run.project, user=person, role="viewer")
    return person


def look(client, **query):
    return client.get(reverse("run-charts", args=HERE), query)


def keep(client, **given):
    return client.post(
        reverse("run-chart-view-save", args=HERE), {"runs": "this", "query": ""} | given
    )


def test_first_chart_of_the_run_is_the_default(alice_client):
    own = look(alice_client).context["own"]
    assert own.sketch.chart.key == "reward" and own.sketch.chart.names[0] == "reward_mean"


def test_any_metrics_can_be_shown_in_one_chart(alice_client):
    own = look(alice_client, names=["kl", "tokens"], log="1").context["own"]
    assert own.sketch.chart.names == ("kl", "tokens")
    assert [pick.name for pick in own.picks if pick.is_shown] == ["kl", "tokens"]
    assert ("log", "1") in own.kept


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"names": "nothing"}, "nothing"),
        ({"chart": "nothing"}, "nothing"),
        ({"from_step": "x"}, "from_step"),
        ({"names": "a b"}, "is not a metric name"),
    ],
)
def test_invalid_query_is_explained(alice_client, query, words):
    answer = look(alice_client, **query)
    assert answer.status_code == 200
    assert any(words in line for line in answer.context["own"].wrong)


def test_saved_view_restores_the_chart(alice_client):
    query = "x=version&smooth=0.5&log=1&names=kl&names=tokens"
    answer = keep(alice_client, name="KL", query=query)
    assert answer["Location"] == f"{reverse('run-charts', args=HERE)}?{query}"
    assert ChartView.objects.get().query == query


def test_view_with_an_existing_name_is_replaced(alice_client):
    keep(alice_client, name="KL", query="names=kl")
    keep(alice_client, name="KL", query="names=loss")
    assert ChartView.objects.get().query == "names=loss"


def test_only_valid_parameters_are_saved(alice_client):
    keep(alice_client, name="odd", query="smooth=9&evil=1&from_step=0&names=kl")
    assert ChartView.objects.get().query == "names=kl"


@pytest.mark.parametrize("wrong", [{"name": ""}, {"name": "x" * 61}, {"runs": "none"}])
def test_invalid_view_is_refused_at_its_field_and_keeps_the_chart(alice_client, wrong):
    answer = keep(alice_client, **{"name": "KL", "query": "names=kl"} | wrong)
    assert answer.status_code == 422 and set(answer.context["form"].errors) == set(wrong)
    assert answer.context["own"].sketch.chart.names == ("kl",)
    assert not ChartView.objects.exists()


def test_project_view_is_offered_in_other_runs_of_the_project(alice_client, seeded):
    keep(alice_client, name="ours", runs="all")
    keep(alice_client, name="here")
    other = Run.create(
        project=seeded.run.project, slug="other", title="Other", plan=seeded.run.settings
    )
    offered = ChartView.objects.offered(seeded.alice, other)
    assert [view.name for view in offered] == ["ours"]


def test_other_users_see_only_shared_views_and_cannot_delete_them(
    alice_client, client, seeded, viewer
):
    keep(alice_client, name="shared", is_shared="on")
    keep(alice_client, name="own")
    shared = ChartView.objects.get(name="shared")
    client.force_login(viewer)
    assert [(view.name, may) for view, may in look(client).context["views"]] == [("shared", False)]
    there = reverse("run-chart-view-delete", args=[*HERE, shared.pk])
    assert client.post(there).status_code == 403
    own = ChartView.objects.get(name="own")
    there = reverse("run-chart-view-delete", args=[*HERE, own.pk])
    assert client.post(there).status_code == 404


def test_viewer_saves_views_but_cannot_share_them(client, viewer, seeded):
    client.force_login(viewer)
    assert keep(client, name="mine").status_code == 302
    assert keep(client, name="ours", is_shared="on").status_code == 403
    view = ChartView.objects.get()
    client.post(reverse("run-chart-view-delete", args=[*HERE, view.pk]))
    assert not ChartView.objects.exists()


def test_number_of_views_per_user_is_limited(seeded):
    for n in range(MAX_VIEWS):
        ChartView.keep(seeded.run, seeded.alice, f"{n}", "", of_all_runs=False, is_shared=False)
    with pytest.raises(NotPossible, match="delete one first"):
        ChartView.keep(seeded.run, seeded.alice, "more", "", of_all_runs=False, is_shared=False)
    ChartView.keep(seeded.run, seeded.alice, "0", "log=1", of_all_runs=False, is_shared=False)


def test_blind_rater_sees_no_chart(client, seeded):
    client.force_login(seeded.bob)
    html = look(client).content.decode()
    assert "You rate this run blind" in html and "data-custom-chart" not in html


def test_number_of_queries_does_not_grow_with_views(alice_client, seeded):
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert look(alice_client).status_code == 200
        return len(captured)

    look(alice_client)
    few = queries()
    for n in range(30):
        ChartView.keep(seeded.run, seeded.alice, f"{n}", "", of_all_runs=False, is_shared=True)
    assert queries() <= few <= 20
