"""Pairs that a run's pipeline creates from its groups: preferences that refer to both rollouts, are
exported with the others, and are counted once.
"""

import pytest
from django.urls import reverse

from apps.buffer.models import Experience
from apps.dashboard.reconciliation.lessons import preferences_match_their_rollouts
from apps.feedback.brevity_lessons import draw_preferences
from apps.feedback.exporting.rows import RowSelection, export_rows
from apps.feedback.exporting.schemas import COLUMNS
from apps.feedback.lesson_snapshots import select_lessons
from apps.feedback.models import Preference
from apps.feedback.rewrite_lessons import keep_rewrite
from apps.pipelines.dry_run import dry_run
from apps.pipelines.models import OperatorCount
from apps.pipelines.operators import find_operator
from apps.pipelines.operators.contract import Sample
from apps.rollouts.models import Rollout

PAIRS = {"operator": "best_against_worst"}


def made(samples: list[Sample], **options: object) -> list[tuple[int, int, float]]:
    operator = find_operator("best_against_worst")
    said = operator.call(samples, operator.read_options(options))
    assert said.kept == samples and not said.reasons
    return [(row.of.rollout, row.over.rollout, row.margin) for row in said.made]


def group(*rewards: float, number: int = 1, **known: object) -> list[Sample]:
    return [
        Sample(**{"rollout": n, "group": number, "text": f"answer {n}", "reward": r, **known})
        for n, r in enumerate(rewards)
    ]


# -- the operator alone


def test_best_answer_is_paired_with_the_worst_and_the_earliest_wins_a_tie():
    assert made(group(0.5, 1.0, 0.0, 1.0, 0.0)) == [(1, 2, 1.0)]


@pytest.mark.parametrize(
    "samples",
    [
        group(0.6, 0.2),
        group(1.0),
        group(1.0, 0.0, text="the same"),
        group(1.0, 0.0, text=" "),
        group(1.0, 0.0, is_dialogue=True),
        group(1.0, 0.0, silent="cut"),
    ],
)
def test_unsuitable_answers_make_no_pair(samples):
    assert made(samples) == []


def test_margin_can_be_configured():
    assert made(group(0.6, 0.2), margin=0.4) == [(0, 1, pytest.approx(0.4))]


# -- in a run


def halves(group) -> list[Rollout]:
    return list(group.rollouts.order_by("sample_index"))


def pairs(run) -> list[dict]:
    return list(export_rows("pairs", RowSelection(run)))


def test_pair_is_a_lesson_with_references_to_its_rollouts(new_run, judge):
    run = new_run(pipeline=[PAIRS])
    [group] = judge(run, (0.0, 1.0))
    worse, better = halves(group)
    lesson = Preference.objects.get()
    assert (lesson.chosen, lesson.rejected, lesson.margin, lesson.author) == (
        better.text,
        worse.text,
        1.0,
        None,
    )
    assert (lesson.chosen_rollout, lesson.rejected_rollout, lesson.task) == (
        better,
        worse,
        group.task,
    )
    assert list(OperatorCount.objects.values_list("given", "kept", "made")) == [(2, 2, 1)]
    assert set(Experience.objects.values_list("kind", flat=True)) == {"usual"}
    assert list(preferences_match_their_rollouts()) == []


def test_pair_is_exported_with_its_parents_in_the_pairs_layout(new_run, judge):
    run = new_run(pipeline=[PAIRS])
    [group] = judge(run, (0.0, 1.0))
    worse, better = halves(group)
    [row] = pairs(run)
    assert list(row) == list(COLUMNS["pairs"])
    assert (row["chosen"][0]["content"], row["rejected"][0]["content"]) == (better.text, worse.text)
    assert (row["chosen_rollout"], row["rejected_rollout"], row["author"]) == (
        better.pk,
        worse.pk,
        None,
    )
    assert row["source"] == f"best against worst of {run.slug}" and row["margin"] == 1.0


def test_equal_texts_for_the_same_task_make_one_pair(new_run, judge):
    run = new_run(pipeline=[PAIRS], max_staleness=8)
    judge(run, *[(0.0, 1.0)] * 8)  # each of its four tasks twice
    assert Preference.objects.count() == 4 and OperatorCount.objects.get().made == 4


def test_dropped_groups_and_removed_rollouts_make_no_pair(new_run, judge):
    judge(
        new_run(
            pipeline=[PAIRS, {"operator": "success_band", "options": {"low": 0.6, "high": 0.9}}]
        ),
        (0.0, 1.0),
    )
    judge(
        new_run(pipeline=[PAIRS, {"operator": "reward_at_least", "options": {"threshold": 0.4}}]),
        (0.0, 1.0),
    )
    assert not Preference.objects.exists()


def test_both_operators_make_their_rows_from_one_group(new_run, judge):
    mix = {"name": "mix", "expert": {"ratio": 0.2, "mu": 0.2, "source": "buffer"}}
    run = new_run(algorithm=mix, pipeline=[{"operator": "best_answers"}, PAIRS])
    judge(run, (0.0, 1.0))
    assert Preference.objects.count() == Experience.objects.expert().count() == 1
    assert list(OperatorCount.objects.values_list("operator", "made")) == [
        ("best_answers", 1),
        ("best_against_worst", 1),
    ]


def test_dpo_run_selects_pairs_by_their_source_name(new_run, judge):
    run = new_run(pipeline=[PAIRS])
    judge(run, (0.0, 1.0), (1.0, 0.0))
    wanted = {
        "source": "preferences",
        "rows": 2,
        "run": run.slug,
        "imported_as": f"best against worst of {run.slug}",
    }
    learner = new_run(
        algorithm={"name": "dpo"}, rewards=[], group_size=8, groups_per_step=16, snapshot=wanted
    )
    assert (
        set(select_lessons(learner)) == set(Preference.objects.all())
        and Preference.objects.count() == 2
    )


def test_pages_show_the_pair(new_run, judge, client, alice):
    run = new_run(pipeline=[PAIRS])
    [group] = judge(run, (0.0, 1.0))
    worse, better = halves(group)
    client.force_login(alice)
    for rollout, words in (
        (better, f"better than rollout {worse.pk}"),
        (worse, f"worse than rollout {better.pk}"),
    ):
        assert words in client.get(reverse("rollout", args=[rollout.pk])).content.decode()
    [line] = dry_run(run, run.settings.pipeline).lines
    assert (line.made, line.rows[0].of.rollout, line.rows[0].over.rollout) == (
        1,
        better.pk,
        worse.pk,
    )
    address = reverse("run-pipeline-try", args=[run.project.slug, run.slug])
    assert (
        "rewards 1 and 0"
        in client.post(address, {"pipeline": "- operator: best_against_worst"}).content.decode()
    )


# -- other kinds of pairs


def test_rewrites_and_shortest_pairs_refer_to_their_rollouts(new_run, judge, bob):
    run = new_run()
    [group] = judge(run, (0.0, 1.0))
    worse, better = halves(group)
    Rollout.objects.filter(pk=worse.pk).update(text="a longer one", completion_tokens=12)
    assert draw_preferences(run) == (1, 0)
    keep_rewrite(bob, run, group, better.pk, "as it should be")
    found = {(row["chosen_rollout"], row["rejected_rollout"]) for row in pairs(run)}
    assert (
        found == {(better.pk, worse.pk), (None, better.pk)}
        and list(preferences_match_their_rollouts()) == []
    )


def test_reconcile_reports_a_pair_whose_text_differs_from_its_rollout(new_run, judge):
    run = new_run(pipeline=[PAIRS])
    judge(run, (0.0, 1.0))
    Preference.objects.update(rejected="never said")
    assert any("the rejected answer" in why for why in preferences_match_their_rollouts())
