"""Runs side by side: curves, differences, and their significance; blind raters see no metrics."""

import itertools
import math

import pytest
from django.urls import reverse

from apps.dashboard.comparing_runs import compute_final_means, overlaid, same_tasks
from apps.dashboard.significance import (
    Seeds,
    bootstrap_difference,
    by_seed,
    t_outside,
    t_quantile,
    versus,
    welch,
)
from apps.dashboard.templatetags.marks import signed_number
from apps.runs.models import Metric, Run, TrainStep
from apps.runs.parsing import parse_config


@pytest.fixture
def alice_client(client, seeded):
    client.force_login(seeded.alice)
    return client


@pytest.fixture
def made(seeded):
    """Create another run with a changed configuration, at step 2 with these rewards."""

    def make(slug: str, rewards: tuple[float, ...] = (0.25, 0.75), **changes: object) -> Run:
        plan = parse_config({**seeded.run.settings.model_dump(mode="json"), **changes})
        run = Run.create(project=seeded.run.project, slug=slug, title=slug, plan=plan)
        for step, reward in enumerate(rewards, start=1):
            Run.objects.filter(pk=run.pk).update(step=step)
            Metric.record(run, step, {"reward_mean": reward})
        run.refresh_from_db()
        return run

    return make


def page(client, **query: str):
    answer = client.get(reverse("compare"), query)
    assert answer.status_code == 200
    return answer


def test_selected_runs_become_a_comparison_url(alice_client, seeded, made):
    other = made("other")
    answer = alice_client.post(
        reverse("runs-act"), {"act": "compare", "run": [seeded.run.pk, other.pk]}
    )
    assert answer["Location"] == f"{reverse('compare')}?runs=lab/other,lab/tone-7"


def test_runs_keep_the_order_of_the_url_and_unknown_ones_are_listed(alice_client, seeded, made):
    made("other")
    context = page(alice_client, runs="lab/tone-7, lab/other, lab/none, x").context
    assert [run.slug for run in context["runs"]] == ["tone-7", "other"] and context["missing"] == [
        "lab/none",
        "x",
    ]


@pytest.mark.parametrize(
    "query", [{"x": "moon"}, {"metric": "moon"}, {"runs": ",".join(f"a/{n}" for n in range(9))}]
)
def test_invalid_url_is_404(alice_client, query):
    answer = alice_client.get(reverse("compare"), query)
    assert answer.status_code == 404 and "The address is invalid" in answer.content.decode()


def test_page_without_runs_explains_how_to_choose_some(alice_client):
    assert "Select two or more runs" in page(alice_client).content.decode()


def test_curves_are_drawn_over_step_version_and_time(seeded):
    run = seeded.run
    assert overlaid(run, ["reward_mean"], "step")["reward_mean"]["x"] == [1, 2, 3]
    versions = dict(TrainStep.objects.filter(run=run).values_list("number", "version"))
    assert overlaid(run, ["reward_mean"], "version")["reward_mean"]["x"] == [
        versions[n] for n in (1, 2, 3)
    ]
    minutes = overlaid(run, ["reward_mean"], "time")["reward_mean"]["x"]
    made = TrainStep.objects.get(run=run, number=3).committed_at
    assert minutes == sorted(minutes) and minutes[-1] == pytest.approx(
        (made - run.started_at).total_seconds() / 60, abs=0.01
    )


def test_curves_of_all_runs_come_in_one_response(alice_client, seeded, made):
    made("other")
    found = alice_client.get(reverse("compare-curves"), {"runs": "lab/tone-7,lab/other"}).json()
    assert found["series"]["reward_mean"]["lab/other"] == {"x": [1, 2], "y": [0.25, 0.75]}
    assert found["runs"] == ["lab/tone-7", "lab/other"]


def test_final_metrics_are_means_of_the_last_steps_and_best_covers_all(made):
    run = made("long", (0.875,) + (0.25,) * 9 + (0.5,))  # the first is outside the last ten
    [final] = compute_final_means([run])
    assert final.last["reward_mean"] == pytest.approx((9 * 0.25 + 0.5) / 10) and final.best == 0.875


def test_differing_configuration_fields_are_listed(alice_client, seeded, made):
    made("other", seed=4)
    found = page(alice_client, runs="lab/tone-7,lab/other").context["differences"]
    assert [(one.field, one.values) for one in found] == [("seed", ("0", "4"))]


def test_runs_that_differ_only_in_their_seed_form_one_group(made):
    runs = [made(f"a{n}", seed=n) for n in range(3)] + [made("b", max_staleness=1)]
    assert [[run.slug for run in group] for group in by_seed(runs)] == [["a0", "a1", "a2"], ["b"]]


def test_replies_to_common_tasks_are_shown_side_by_side(seeded, made, finish):
    other = made("other")
    other.start()
    shared = seeded.run.groups.exclude(state="sampling").order_by("-pk").first().task
    for group in finish(other, ["A reply of the other"], groups=3):
        last = group
    last.__class__.objects.filter(pk=last.pk).update(task=shared)
    found = same_tasks([seeded.run, other], seeded.alice)
    assert shared in [task for task, _ in found]
    answers = next(answers for task, answers in found if task == shared)
    assert (
        answers[1].rollout.text == "A reply of the other" and answers[0].rollout.run == seeded.run
    )


def test_blind_rater_sees_no_metrics(client, seeded, made):
    other = made("other", (0.8317,))
    client.force_login(seeded.bob)
    answer = page(client, runs="lab/tone-7,lab/other")
    assert (
        answer.context["finals"] == []
        and "0.83" not in answer.content.decode()
        and "rated blind" in answer.content.decode()
    )
    assert (
        client.get(reverse("compare-curves"), {"runs": f"lab/{other.slug}"}).json()["series"] == {}
    )


def test_stranger_sees_no_run(client, seeded):
    client.force_login(seeded.carol)
    assert page(client, runs="lab/tone-7").context["runs"] == []


# -- significance


def density(t: float, degrees: float) -> float:
    front = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(
        degrees * math.pi
    )
    return front * (1 + t * t / degrees) ** (-(degrees + 1) / 2)


@pytest.mark.parametrize("degrees", [1.0, 2.5, 4.0, 17.3, 120.0])
@pytest.mark.parametrize("t", [0.1, 1.0, 2.2, 5.0])
def test_t_distribution_tail_matches_the_integral_of_its_density(t, degrees):
    pieces = 4_000
    inside = sum(density((n + 0.5) * t / pieces, degrees) for n in range(pieces)) * 2 * t / pieces
    assert t_outside(t, degrees) == pytest.approx(1 - inside, abs=1e-6)
    assert t_quantile(1 - t_outside(t, degrees) / 2, degrees) == pytest.approx(t, rel=1e-6)


def test_welch_interval_matches_the_textbook():
    """Two-sided 95 %, computed manually: means 22 and 26, variances 2.5 and 10, n 5 and 5; 5.88
    degrees, t = 2.459.
    """
    one = (20, 21, 22, 23, 24)
    other = (22, 24, 26, 28, 30)
    (low, high), p = welch(one, other)
    error = math.sqrt(2.5 / 5 + 10 / 5)
    assert (low + high) / 2 == pytest.approx(-4) and (high - low) / 2 == pytest.approx(
        t_quantile(0.975, 6.25 / 1.0625) * error
    )
    assert p == pytest.approx(t_outside(4 / error, 6.25 / 1.0625)) and high < 0


def test_bootstrap_interval_is_close_to_the_exact_one():
    one = (0.61, 0.7, 0.66)
    other = (0.5, 0.58, 0.41)
    means = [
        [sum(drawn) / 3 for drawn in itertools.product(side, repeat=3)] for side in (one, other)
    ]
    every = sorted(a - b for a in means[0] for b in means[1])
    low, high = bootstrap_difference(one, other)
    assert low == pytest.approx(every[round(0.025 * len(every))], abs=0.01)
    assert high == pytest.approx(every[round(0.975 * len(every))], abs=0.01)


def test_single_seed_gives_a_difference_without_an_interval(made):
    run = made("a")
    found = versus(Seeds((run,), (0.5,)), Seeds((run, run), (0.25, 0.5)))
    assert (found.difference, found.welch, found.p, found.is_clear) == (0.125, None, None, False)


def test_equal_results_of_all_seeds_give_no_interval(alice_client, made):
    for n in range(2):
        made(f"good{n}", (1.0,), seed=n), made(f"bad{n}", (0.0,), seed=n, max_staleness=1)
    answer = page(alice_client, runs="lab/good0,lab/good1,lab/bad0,lab/bad1")
    [[found]] = [chance.versus for chance in answer.context["chances"]]
    assert (found.difference, found.welch, found.bootstrap, found.p, found.is_clear) == (
        1.0,
        None,
        None,
        None,
        False,
    )
    assert (
        "no variation between seeds" in answer.content.decode()
        and ">significant</b>" not in answer.content.decode()
    )


def test_repeated_seed_counts_once(made):
    runs = [made("a", seed=1), made("a-again", seed=1), made("b", seed=2)]
    found = Seeds.of(runs, {runs[0].pk: 0.25, runs[1].pk: 0.75, runs[2].pk: 1.0})
    assert found.values == (0.5, 1.0)


def test_runs_are_compared_at_the_last_step_that_all_have_reached(alice_client, made):
    for n in range(2):
        (
            made(f"long{n}", (0.25 + n / 100, *[0.5] * 30), seed=n),
            made(f"short{n}", (0.5 + n / 50,), seed=n, max_staleness=1),
        )
    answer = page(alice_client, runs="lab/long0,lab/long1,lab/short0,lab/short1")
    [[found]] = [chance.versus for chance in answer.context["chances"]]
    assert found.step == 1 and found.difference == pytest.approx(-0.255)
    assert found.one.values == (0.25, 0.26)


@pytest.mark.parametrize(
    ("value", "words"),
    [(-0.005, "−0.005"), (0.25, "+0.25"), (0, "0"), (1234.5, "+1,234"), (None, "–")],
)
def test_difference_is_shown_with_meaningful_digits(value, words):
    assert signed_number(value) == words


def test_significant_difference_is_shown_with_the_number_of_seeds(alice_client, made):
    for n, (good, bad) in enumerate([(0.8, 0.3), (0.82, 0.31), (0.79, 0.28)]):
        made(f"good{n}", (good,), seed=n), made(f"bad{n}", (bad,), seed=n, max_staleness=1)
    runs = ",".join(f"lab/{side}{n}" for side in ("good", "bad") for n in range(3))
    html = page(alice_client, runs=runs).content.decode()
    assert ">significant</b>" in html and "3, 3" in html
