"""The pages of suspicions: whom they are for, what stands on them, and that one click acts and says
so.
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
    """The seeded run, suspected of speaking to its judge."""
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


def test_the_run_tells_who_steers_it_and_nobody_else(client, suspected):
    said = "Possible reward hacking"
    for name, more in (("run", ()), ("run-part", ("now",))):
        assert said in page(client, suspected.alice, name, *more)[1]
        assert said not in page(client, suspected.bob, name, *more)[1]


def test_its_groups_are_scored_again_and_that_is_kept_as_an_act(client, suspected):
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


def test_a_suspicion_that_is_not_the_runs_is_not_scored_again(client, suspected):
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
    """What the page of new sets says, opened for the suspicion."""
    ask.__self__.force_login(suspected.alice)
    address = reverse("run-rescorings", args=["lab", "tone-7"])
    return ask(address, {"suspicion": suspected.suspicion.pk, **data}, follow=True).content.decode()


@pytest.mark.parametrize("name", ["run-suspicions", "run-suspicion"])
def test_raters_and_viewers_are_not_told_what_is_suspected(client, suspected, name):
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


def test_what_was_seen_stands_there_with_its_curve_and_a_sample(client, suspected):
    _, listed = page(client, suspected.alice, "run-suspicions")
    assert (
        "Replies address the judge" in listed
        and "polyline" in listed
        and "Review 12 replies" in listed
    )
    _, text = page(client, suspected.alice, "run-suspicion", suspected.suspicion.pk)
    assert text.count("affected</span>") == 12 and HOSTILE not in text and "&lt;script&gt;" in text


def test_a_run_of_which_nothing_is_suspected_says_so(client, seeded):
    _, text = page(client, seeded.alice, "run-suspicions")
    assert "No suspicions" in text and "manage.py taskset guesses tone --run tone-7" in text


def test_one_click_asks_people(client, suspected):
    assert "12 replies sent to raters" in act(client, suspected.alice, suspected, "ask")
    assert Item.objects.filter(run=suspected.run, purpose="check").count() == 12
    text = act(client, suspected.alice, suspected, "ask")
    assert "already" in text and "12 ratings pending" in text


def test_a_drop_names_who_did_and_why(client, suspected):
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
def test_a_drop_takes_the_runs_name_and_a_reason(client, suspected, sent, words):
    assert words in act(client, suspected.alice, suspected, "drop", **sent)
    assert not suspected.suspicion.actions.exists()


def test_before_a_drop_it_is_said_how_many_groups_will_fall_with_the_tasks_and_without(
    client, suspected
):
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


def test_other_weights_hold_from_the_next_groups_on(client, suspected):
    assert "tone 1 → 0.5" in act(
        client, suspected.alice, suspected, "reweight", **{"weight.tone": "0.5"}
    )
    suspected.run.refresh_from_db()
    assert suspected.run.settings.rewards[0].weight == 0.5


@pytest.mark.parametrize("weight", ["", "much", "nan", "inf"])
def test_a_weight_that_is_none_changes_nothing_and_says_so(client, suspected, weight):
    assert "Nothing was changed" in act(
        client, suspected.alice, suspected, "reweight", **{"weight.tone": weight}
    )
    suspected.run.refresh_from_db()
    assert suspected.run.settings.rewards[0].weight == 1.0


def test_to_dismiss_takes_a_reason_and_ends_the_matter(client, suspected):
    assert "Enter a reason" in act(client, suspected.alice, suspected, "dismiss")
    text = act(client, suspected.alice, suspected, "dismiss", reason="a quotation")
    assert "a quotation" in text and "Drop…" not in text
    assert "Possible reward hacking" not in page(client, suspected.alice, "run")[1]


def test_nobody_else_acts_and_no_other_act_is_known(client, suspected):
    client.force_login(suspected.bob)
    here = ["lab", "tone-7", suspected.suspicion.pk]
    assert client.post(reverse("run-suspicion-act", args=[*here, "drop"])).status_code == 403
    client.force_login(suspected.alice)
    assert client.post(reverse("run-suspicion-act", args=[*here, "explode"])).status_code == 404
    assert client.get(reverse("run-suspicion-act", args=[*here, "drop"])).status_code == 405


def test_more_suspicions_cost_no_more_queries(client, suspected):
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
