"""The first page: waiting work, active runs, first steps, and where raters land."""

from html.parser import HTMLParser
from urllib.parse import urljoin

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Membership, Project, User
from apps.alerts.models import Alert
from apps.feedback.claiming import claim
from apps.feedback.models import Item, Rating
from apps.policies.models import BUILT, Policy
from apps.runs.models import Run
from apps.tasksets.models import Taskset
from tests.conftest import PASSWORD
from tests.dashboard.growing import grow_runs
from tests.played import play

HOME = reverse("home")
FIRST_STEPS = ["Bring a model", "Bring prompts", "Invite raters"]


def home(client, user: User):
    client.force_login(user)
    return client.get(HOME).context["home"]


def titles(client, user: User) -> list[str]:
    return [card.title for card in home(client, user).cards]


def member(project: Project, name: str, role: str, **fields: object) -> User:
    person = User.objects.create_user(name, password=PASSWORD, tour_step=0, **fields)
    Membership.objects.create(project=project, user=person, role=role)
    return person


def alert(run: Run, rule: str = "starvation") -> Alert:
    return Alert.objects.create(
        run=run, rule=rule, words="It waits.", todo="Look.", since=timezone.now()
    )


def disagree(run: Run) -> Item:
    """Let two more raters rate an item of the run, one with five stars and one with one."""
    rollout = run.rollouts.filter(state="finished").order_by("pk").last()
    item = Item.objects.create(
        run=run, group=rollout.group, form="stars", members=[rollout.pk], overlap=2
    )
    for number, stars in enumerate((5, 1)):
        person = User.objects.create(username=f"rater-{run.pk}-{item.pk}-{number}")
        Rating.objects.create(
            run=run,
            item=item,
            rollout=rollout,
            rater=person,
            form="stars",
            answer={"stars": stars},
            shown=[rollout.pk],
            client_uuid=f"00000000-0000-0000-0000-{item.pk:08}{number:04}",
        )
    return item


def test_items_to_rate_are_listed_by_run_and_match_the_badge(client, seeded):
    (one,) = home(client, seeded.alice).to_rate
    assert claim(seeded.alice)  # items held by a window count as waiting
    assert home(client, seeded.alice).to_rate == [one]
    page = client.get(HOME).content.decode()
    assert (one.run.slug, one.words) == ("tone-7", client.get(HOME).context["waiting_ratings"])
    assert f'href="{reverse("rate")}?run={seeded.run.pk}"' in page


def test_disagreement_is_listed_until_it_is_adjudicated(client, seeded):
    before = {one.run: one.count for one in home(client, seeded.alice).disputes}
    item = disagree(seeded.run)
    (one,) = home(client, seeded.alice).disputes
    assert one.count == before.get(seeded.run, 0) + 1
    adjudicate = reverse("run-adjudicate", args=["lab", "tone-7"])
    assert adjudicate in client.get(HOME).content.decode()
    client.post(
        reverse("run-dispute", args=["lab", "tone-7", item.pk]),
        {"vote": item.ratings.first().pk, "client_uuid": "00000000-0000-0000-0000-000000000001"},
    )
    assert sum(one.count for one in home(client, seeded.alice).disputes) == one.count - 1


def test_user_who_cannot_adjudicate_sees_no_disagreements(client, seeded):
    disagree(seeded.run)
    viewer = member(seeded.run.project, "vera", Membership.Role.VIEWER)
    assert home(client, viewer).disputes == []


def test_alert_is_listed_until_it_is_acknowledged(client, seeded):
    open_one = alert(seeded.run)
    shown = home(client, seeded.alice)
    assert shown.alerts == [open_one] and not shown.has_more_alerts
    open_one.acknowledge(seeded.alice, None)
    assert home(client, seeded.alice).alerts == []


def test_runs_are_sorted_by_newest_activity_and_have_a_summary(client, seeded):
    grow_runs(seeded.run, 10)
    Run.objects.filter(slug="run-3").update(trained_at=Now(), waiting_on="people")
    Run.objects.filter(slug="run-4").update(state="stopped")
    rows = home(client, seeded.alice).rows
    assert len(rows) == 8 and "run-4" not in [row.run.slug for row in rows]
    assert rows[0].run.slug == "run-3"
    assert rows[0].sentence == "Running · step 0 of 200 · waiting for people"
    assert rows[0].sentence in client.get(HOME).content.decode()


def test_pause_reason_is_shown_only_to_users_who_do_not_rate_blind(client, seeded):
    seeded.run.pause(by=seeded.alice, reason="the reward is odd")
    (row,) = home(client, seeded.alice).rows
    assert row.sentence == "Paused · step 3 of 200 · the reward is odd" and row.spark
    named = seeded.run.config["people"] | {"raters": {"people": ["vera"], "groups": []}}
    Run.objects.update(config=seeded.run.config | {"people": named})
    (row,) = home(client, member(seeded.run.project, "vera", Membership.Role.VIEWER)).rows
    assert row.sentence == "Paused · step 3 of 200" and not row.spark and row.reward is None


def test_list_of_waiting_work_refreshes_while_the_page_is_open(client, seeded):
    client.force_login(seeded.alice)
    assert f'hx-get="{reverse("home-now")}"' in client.get(HOME).text
    open_one = alert(seeded.run)
    part = client.get(reverse("home-now")).text
    assert open_one.title in part and "tone-7" in part and "<html" not in part


def test_nothing_of_another_project_is_shown(client, seeded):
    disagree(seeded.run)
    alert(seeded.run)
    other = Project.objects.create(slug="other", title="Other")
    for role in (Membership.Role.OWNER, Membership.Role.VIEWER):
        stranger = member(other, f"{role}-of-another", role)
        found = home(client, stranger)
        assert (found.to_rate, found.disputes, found.alerts, found.rows) == ([], [], [], [])
        for address in (HOME, reverse("home-now")):
            assert "tone-7" not in client.get(address).text


def test_number_of_queries_is_the_same_with_1_and_30_runs(client, seeded):
    client.force_login(seeded.alice)
    disagree(seeded.run)
    alert(seeded.run)
    with CaptureQueriesContext(connection) as few:
        client.get(HOME)
    grow_runs(seeded.run, 29)
    for run in Run.objects.exclude(pk=seeded.run.pk):
        alert(run)
    Run.objects.filter(pk=seeded.run.pk).update(trained_at=Now())
    with CaptureQueriesContext(connection) as many:
        found = client.get(HOME).context["home"]
    assert len(found.rows) == 8 and found.disputes and len(found.alerts) == 5
    assert found.has_more_alerts
    assert len(many) == len(few) <= 36


def test_user_without_a_project_reads_whom_to_ask(client, seeded):
    client.force_login(seeded.carol)
    page = client.get(HOME).content.decode()
    assert "You belong to no project yet" in page and "First steps" not in page


def test_page_without_a_run_shows_the_first_steps(client, project):
    owner = member(project, "olga", Membership.Role.OWNER)
    assert titles(client, owner) == FIRST_STEPS
    page = client.get(HOME).content.decode()
    assert reverse("taskset-imports", args=["lab"]) in page
    assert reverse("project", args=["lab"]) in page and "No run is active" in page


def test_first_step_disappears_once_it_is_done(client, project, run):
    owner = member(project, "olga", Membership.Role.OWNER)
    assert titles(client, owner) == ["Invite raters"]
    member(project, "robot", Membership.Role.RATER, is_simulated=True)
    assert titles(client, owner) == ["Invite raters"]
    member(project, "rita", Membership.Role.RATER)
    assert titles(client, owner) == []


def test_demo_data_does_not_complete_the_first_steps(client, project, run):
    owner = member(project, "olga", Membership.Role.OWNER)
    Project.objects.update(slug="demo")
    Policy.objects.update(source=f"{BUILT} 'tone'")
    assert titles(client, owner) == ["Bring a model", "Bring prompts", "Invite raters"]
    Policy.objects.update(source="a folder")
    Taskset.objects.update(seed=None)
    assert titles(client, owner) == ["Invite raters"]


def test_tour_is_offered_in_a_demo_until_it_is_finished(client, seeded):
    Project.objects.filter(pk=seeded.run.project_id).update(slug="demo")
    viewer = member(seeded.run.project, "vera", Membership.Role.VIEWER)
    assert titles(client, viewer) == []
    User.objects.filter(pk=viewer.pk).update(tour_step=1)
    viewer.refresh_from_db()
    assert titles(client, viewer) == ["Take the tour"]
    assert client.post(reverse("tour"), {"to": 1}).url.startswith(reverse("live"))


@pytest.mark.parametrize(
    ("role", "offered"),
    [("researcher", ["Bring a model", "Bring prompts"]), ("viewer", []), ("owner", FIRST_STEPS)],
)
def test_first_step_is_offered_only_to_users_who_can_do_it(client, project, role, offered):
    found = titles(client, member(project, "olga", role))
    assert found == offered
    assert ("Invite raters" in found) == (role == "owner")


def test_every_first_step_links_to_a_page(client, project):
    client.force_login(member(project, "olga", Membership.Role.OWNER))
    found = client.get(HOME).context["home"]
    assert [client.get(card.url).status_code for card in found.cards] == [200] * 3


def test_administrator_without_a_project_is_led_to_create_one(client, admin_user):
    Project.objects.all().delete()
    User.objects.filter(pk=admin_user.pk).update(tour_step=0)
    assert titles(client, admin_user) == ["Try the demo", "Create a project"]


def test_rater_lands_on_the_rating_page_after_login_unless_next_is_set(client, project):
    member(project, "rita", Membership.Role.RATER)
    login = {"login": "rita", "password": PASSWORD}
    answer = client.post(reverse("account_login"), login, follow=True)
    assert answer.redirect_chain[-1][0] == reverse("rate")
    client.logout()
    asked = client.post(f"{reverse('account_login')}?next=/settings/", login)
    assert asked.url == reverse("settings")


def test_user_who_rates_in_one_project_and_views_another_gets_the_first_page(client, project):
    person = member(project, "rita", Membership.Role.RATER)
    other = Project.objects.create(slug="other", title="Other")
    Membership.objects.create(project=other, user=person, role=Membership.Role.VIEWER)
    assert home(client, person).is_member


class Links(HTMLParser):
    """The addresses that a page links to, without those of posted forms."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag == "a" and given.get("href"):
            self.found.add(given["href"])
        if tag == "form" and given.get("method", "get").lower() == "get":
            self.found.add(given.get("action") or "")
        self.found.update(given[name] for name in ("hx-get",) if given.get(name))


def links_of(client, address: str) -> set[str]:
    answer = client.get(address, follow=True)
    assert answer.status_code == 200, address
    here = {urljoin(address, link).partition("#")[0] for link in Links(answer.text).found}
    return {link for link in here if link.startswith("/")}


def test_navigation_of_a_rater_contains_only_pages_for_raters(client, seeded):
    client.force_login(seeded.bob)
    page = client.get(reverse("rate"))
    names = [place["name"] for place in page.context["rail"]]
    assert names == ["rate", "live", "my-work", "help", "settings"]
    assert reverse("alerts") not in page.text and reverse("runs") not in page.text


def test_no_link_on_a_raters_pages_is_a_dead_end(client, seeded):
    play(seeded.run)
    alert(seeded.run)
    run = seeded.run
    client.force_login(seeded.bob)
    rail = [place["url"] for place in client.get(reverse("rate")).context["rail"]]
    asked = [f"{address}?run={run.pk}" for address in (reverse("rate"), reverse("live"))]
    parts = [reverse("rate-end"), reverse("rate-guidelines", args=[run.pk])]
    next_ones = [
        reverse("rollout", args=[seeded.rollout.pk]),
        reverse("run", args=["lab", run.slug]),
    ]
    pages = [HOME, *rail, *asked, *parts, *next_ones]
    found = set().union(*(links_of(client, page) for page in pages))
    assert {reverse("settings"), reverse("projects"), reverse("live")} <= found
    assert any(link.startswith("/rollouts/") for link in found)
    met = {link: client.get(link, follow=True).status_code for link in sorted(found)}
    assert {link: status for link, status in met.items() if status != 200} == {}
