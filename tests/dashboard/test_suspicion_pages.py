"""The pages of suspicions: who may see them, what they show, and that one click acts and confirms
it.
"""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import Membership, User
from apps.feedback.models import Item, Suspicion
from apps.feedback.suspicions import acting
from apps.rewards.models import Rescoring
from apps.rollouts.models import Group, Rollout

pytestmark = pytest.mark.django_db
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def suspected(seeded):
    """Add a suspicion to the seeded run: its replies address the judge."""
    replies = list(Rollout.objects.filter(run=seeded.run, state="finished").order_by("pk")[:14])
    Rollout.objects.filter(pk=replies[0].pk).update(text=HOSTILE)
    ids = [reply.pk for reply in replies]
    seeded.suspicion = Suspicion.objects.create(
        run=seeded.run,
        kind="to_judge",
        words=f"12 replies say “{HOSTILE}”",
        metrics={"replies": 12},
        first_step=2,
        last_step=3,
        series={"to the judge": [[0, 0.0], [1, 0.25], [2, 0.5]]},
        evidence=ids,
        sample=ids[:12],
    )
    return seeded


def page(client, user, name, *more):
    client.force_login(user)
    answer = client.get(reverse(name, args=["lab", "tone-7", *more]))
    return answer.status_code, answer.content.decode()


def act(client, user, suspected, verb, **data):
    client.force_login(user)
    address = reverse("run-suspicion-act", args=["lab", "tone-7", suspected.suspicion.pk, verb])
    return client.post(address, data, follow=True).content.decode()


def test_run_page_shows_suspicions_to_the_owner_and_not_to_a_rater(client, suspected):
    said = "Possible reward hacking"
    for name, more in (("run", ()), ("run-part", ("now",))):
        assert said in page(client, suspected.alice, name, *more)[1]
        assert said not in page(client, suspected.bob, name, *more)[1]


def test_suspected_groups_are_scored_again_and_the_action_is_recorded(client, suspected):
    assert f'name="suspicion" value="{suspected.suspicion.pk}"' in again(client.get, suspected)
    groups = set(
        Rollout.objects.filter(pk__in=suspected.suspicion.evidence).values_list("group", flat=True)
    )
    said = again(client.post, suspected, rewards="- {scorer: repetition}")
    made = Rescoring.objects.get(run=suspected.run)
    assert (
        set(made.items.values_list("group", flat=True)) == groups
        and f"{len(groups)} selected groups" in said
    )
    done = suspected.suspicion.actions.get()
    assert (done.verb, done.by, done.details) == ("rescored", suspected.alice, {"set": made.pk})


def test_unknown_suspicion_cannot_be_scored_again(client, suspected):
    client.force_login(suspected.alice)
    address = reverse("run-rescorings", args=["lab", "tone-7"])
    assert (
        client.post(address, {"suspicion": 10**9, "rewards": "- {scorer: repetition}"}).status_code
        == 404
    )
    assert (
        client.get(address, {"suspicion": 10**17}).status_code == 404
        and not Rescoring.objects.exists()
    )


def again(ask, suspected, **data) -> str:
    """Return the page of new rescorings, opened for the suspicion."""
    ask.__self__.force_login(suspected.alice)
    address = reverse("run-rescorings", args=["lab", "tone-7"])
    return ask(address, {"suspicion": suspected.suspicion.pk, **data}, follow=True).content.decode()


@pytest.mark.parametrize("name", ["run-suspicions", "run-suspicion"])
def test_raters_viewers_and_strangers_cannot_see_suspicions(client, suspected, name):
    viewer = User.objects.create_user("vera")
    Membership.objects.create(
        project=suspected.run.project, user=viewer, role=Membership.Role.VIEWER
    )
    more = (suspected.suspicion.pk,) if name == "run-suspicion" else ()
    met = [
        page(client, user, name, *more)[0]
        for user in (suspected.alice, suspected.bob, viewer, suspected.carol)
    ]
    assert met == [200, 403, 403, 404]


def test_suspicion_shows_its_curve_and_escaped_sample_replies(client, suspected):
    _, listed = page(client, suspected.alice, "run-suspicions")
    assert (
        "Replies address the judge" in listed
        and "polyline" in listed
        and "Review 12 replies" in listed
    )
    _, text = page(client, suspected.alice, "run-suspicion", suspected.suspicion.pk)
    assert text.count("affected</span>") == 12 and HOSTILE not in text and "&lt;script&gt;" in text


def test_run_without_suspicions_says_so(client, seeded):
    _, text = page(client, seeded.alice, "run-suspicions")
    assert "No suspicions" in text and "manage.py taskset guesses tone --run tone-7" in text


def test_suspected_replies_are_sent_to_raters_once(client, suspected):
    assert "12 replies sent to raters" in act(client, suspected.alice, suspected, "ask")
    assert Item.objects.filter(run=suspected.run, purpose="check").count() == 12
    text = act(client, suspected.alice, suspected, "ask")
    assert "already" in text and "12 ratings pending" in text


def test_drop_is_recorded_with_its_reason(client, suspected):
    text = act(client, suspected.alice, suspected, "drop", reason="they plead", name="tone-7")
    assert "groups dropped" in text and "left out of training" in text and "they plead" in text


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"reason": "they plead"}, "type tone-7 to confirm"),
        ({"reason": "they plead", "name": "tone-8"}, "type tone-7 to confirm"),
        ({"name": "tone-7"}, "enter a reason"),
    ],
)
def test_drop_requires_the_runs_name_and_a_reason(client, suspected, sent, words):
    assert words in act(client, suspected.alice, suspected, "drop", **sent)
    assert not suspected.suspicion.actions.exists()


def test_page_shows_how_many_groups_a_drop_affects_with_and_without_their_tasks(client, suspected):
    run = suspected.run
    shown = Rollout.objects.get(pk=suspected.suspicion.evidence[0]).group
    other = (
        Group.objects.filter(run=run, draw_index__isnull=False)
        .exclude(pk=shown.pk)
        .exclude(task=shown.task)
        .first()
    )
    Group.objects.filter(pk__in=[shown.pk, other.pk]).update(state="waiting", task=shown.task)
    Suspicion.objects.update(evidence=suspected.suspicion.evidence[:1])
    suspected.suspicion.refresh_from_db()
    text = page(client, suspected.alice, "run-suspicion", suspected.suspicion.pk)[1]
    alone = acting.untrained(suspected.suspicion)
    with_tasks = acting.untrained(suspected.suspicion, with_tasks=True)
    assert alone < with_tasks
    assert f'<b class="num">{alone}</b> affected group' in text
    assert f': <b class="num">{with_tasks}</b>' in text
    act(
        client,
        suspected.alice,
        suspected,
        "drop",
        reason="they plead",
        name="tone-7",
        with_tasks="on",
    )
    assert suspected.suspicion.actions.get().details["groups"] == with_tasks


def test_changed_scorer_weight_applies_to_the_run(client, suspected):
    assert "tone 1 → 0.5" in act(
        client, suspected.alice, suspected, "reweight", **{"weight.tone": "0.5"}
    )
    suspected.run.refresh_from_db()
    assert suspected.run.settings.rewards[0].weight == 0.5


@pytest.mark.parametrize("weight", ["", "much", "nan", "inf"])
def test_invalid_weight_changes_nothing_and_says_so(client, suspected, weight):
    assert "Nothing was changed" in act(
        client, suspected.alice, suspected, "reweight", **{"weight.tone": weight}
    )
    suspected.run.refresh_from_db()
    assert suspected.run.settings.rewards[0].weight == 1.0


def test_dismissing_requires_a_reason_and_removes_the_warning(client, suspected):
    assert "Enter a reason" in act(client, suspected.alice, suspected, "dismiss")
    text = act(client, suspected.alice, suspected, "dismiss", reason="a quotation")
    assert "a quotation" in text and "Drop…" not in text
    assert "Possible reward hacking" not in page(client, suspected.alice, "run")[1]


def test_suspicion_actions_reject_raters_unknown_actions_and_get_requests(client, suspected):
    client.force_login(suspected.bob)
    here = ["lab", "tone-7", suspected.suspicion.pk]
    assert client.post(reverse("run-suspicion-act", args=[*here, "drop"])).status_code == 403
    client.force_login(suspected.alice)
    assert client.post(reverse("run-suspicion-act", args=[*here, "explode"])).status_code == 404
    assert client.get(reverse("run-suspicion-act", args=[*here, "drop"])).status_code == 405


def test_queries_do_not_grow_with_suspicions(client, suspected):
    client.force_login(suspected.alice)

    def queries(name, *more):
        with CaptureQueriesContext(connection) as captured:
            assert client.get(reverse(name, args=["lab", "tone-7", *more])).status_code == 200
        return len(captured)

    one = queries("run-suspicion", suspected.suspicion.pk)
    assert one <= 30
    few = queries("run-suspicions")
    Suspicion.objects.bulk_create(
        Suspicion(
            run=suspected.run,
            kind=f"kind {n}",
            words="x",
            first_step=1,
            last_step=2,
            state="open" if n % 2 else "dismissed",
        )
        for n in range(40)
    )
    assert queries("run-suspicions") <= few + 2  # acts and their authors, once for all
