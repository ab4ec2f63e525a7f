"""Hindsight: a wrong reply becomes an expert row of the task that asks for the value it reached,
and refers to its source.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction
from django.urls import reverse

from apps.buffer.ledger import derived_rollouts_match_their_parents
from apps.buffer.models import Experience, Offspring, batch_of, plan_step
from apps.dashboard.reconciliation.groups import groups_match_their_counters
from apps.dashboard.reconciliation.lessons import expert_rollouts_match_their_demonstrations
from apps.dashboard.reconciliation.training import trained_experiences_belong_to_committed_steps
from apps.feedback.models import Suspicion
from apps.feedback.suspicions import acting
from apps.lineage.replaying.creating import NothingToReplay, propose
from apps.pipelines import offspring
from apps.pipelines.checking import find_pipeline_problems
from apps.pipelines.dry_run import dry_run
from apps.pipelines.models import OperatorCount
from apps.pipelines.operators import find_operator as operator
from apps.pipelines.operators.contract import Sample
from apps.pipelines.refining import refine
from apps.rewards.scorers import RolloutView, TaskView
from apps.rewards.scorers import find_scorer as scorer
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.models import Group, Rollout
from apps.rollouts.payload import pack
from apps.rollouts.payload import unpack_payload as unpacked
from apps.tasksets.generators import countdown
from apps.tasksets.generators import find_generator as generator
from apps.tasksets.generators.arithmetic import asking_for
from apps.tasksets.importing import generate
from apps.tasksets.ledger import derived_tasks_name_their_source
from apps.tasksets.models import Task, Taskset
from apps.tasksets.rows import TaskRow, user_message
from apps.tasksets.storing import Origin, store_taskset
from tests.conftest import tokens_of
from tests.locks import somebody_waits
from tests.pipelines.test_own_experts import update

MIX = {"name": "mix", "expert": {"ratio": 1 / 3, "mu": 0.2, "source": "buffer"}}
HINDSIGHT = {"operator": "hindsight"}
NUMBERS = [1, 2, 3]


@pytest.fixture
def relabelling(new_run, project):
    """Return a function that starts a MIX run over four countdown tasks of the numbers 1, 2 and 3,
    with 2 groups of 2 per step and the trainer's lease claimed.
    """
    store_taskset(
        Origin(project, "count", "Count", "countdown"),
        [countdown.build_countdown_task(target, NUMBERS) for target in (6, 7, 8, 9)],
    )

    def make(*pipeline: dict, **changes: object):
        plan = {
            "algorithm": MIX,
            "taskset": "count",
            "rewards": [{"scorer": "countdown"}],
            "selection": "sequential",
        }
        run = new_run(**{**plan, "pipeline": list(pipeline) or [HINDSIGHT], **changes})
        assert run.claim_trainer("t", 60)
        return run

    return make


@pytest.fixture
def answer(finish):
    """Create groups with these replies, judge them with the run's scorers, and refine them."""

    def answered(run, *texts: str, groups: int = 1, stop_reason: str = "stop") -> list[Group]:
        opened = finish(run, list(texts), groups=groups)
        Rollout.objects.filter(group__in=opened).update(stop_reason=stop_reason)
        claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 100)
        record_verdicts(
            claimed,
            [AnsweredQuestion(question, judged(question)) for question in open_questions(claimed)],
        )
        refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 100))
        return [Group.objects.get(pk=group.pk) for group in opened]

    return answered


def judged(question):
    return scorer(question.scorer).judge(question.rollouts, question.task, question.options)


def take_in(run) -> int:
    """Admit rows as the trainer does, with a tokenizer that makes each byte a token."""
    waiting = list(offspring.not_yet_admitted(run))
    return offspring.admit(
        run,
        run.fence,
        [(one, offspring.tokens_of(one, one.task.question.encode())) for one in waiting],
    )


def violations() -> list[str]:
    checks = (
        derived_rollouts_match_their_parents,
        derived_tasks_name_their_source,
        groups_match_their_counters,
        expert_rollouts_match_their_demonstrations,
        trained_experiences_belong_to_committed_steps,
    )
    return [why for find in checks for why in find()]


# -- reached values


@pytest.mark.parametrize(
    ("said", "reached"),
    [
        ("<answer>1+2*3</answer>", {"target": 7}),
        ("<answer>1*2*3</answer>", None),  # the target of the task
        ("<answer>2*3</answer>", None),  # not all of the numbers
        ("<answer>1+2+3+3</answer>", None),  # one number twice
        ("<answer>1-2-3</answer>", None),  # never a target
        ("<answer>1/2+3</answer>", None),
        ("<answer>seven</answer>", None),
    ],
)
def test_formula_reaches_its_value_if_it_uses_each_number_once(said, reached):
    row = countdown.build_countdown_task(6, NUMBERS)
    verdict = scorer("countdown").of(said, row)
    assert verdict.details.get("reached") == reached
    loose = scorer("countdown").judge(
        [RolloutView(said)], TaskView(row.prompt, row.answer), {"use": "at_most"}
    )[0]
    assert loose.details.get("reached") == reached or loose.value == 1.0


def test_reached_value_is_right_for_the_task_made_from_it():
    for row in generator("arithmetic")(40, 3):
        for said in ("0", "57", "198"):
            goal = scorer("arithmetic").of(said, row).details.get("reached")
            made = asking_for(row, goal) if goal else None
            assert made is None or (
                scorer("arithmetic").of(said, made).value == 1.0 and made.prompt != row.prompt
            )
    made = countdown.asking_for(countdown.build_countdown_task(6, NUMBERS), {"target": 7})
    assert (
        made == countdown.build_countdown_task(7, NUMBERS)
        and scorer("countdown").of("<answer>1+2*3</answer>", made).value == 1.0
    )


@pytest.mark.parametrize(
    "goal", [{"target": 0}, {"target": 1_000}, {"target": 7.0}, {"target": True}, {"value": 7}, {}]
)
def test_no_task_is_made_for_a_goal_that_is_never_generated(goal):
    assert countdown.asking_for(countdown.build_countdown_task(6, NUMBERS), goal) is None


def test_task_with_another_wording_is_not_rewritten():
    row = TaskRow(
        user_message("Make 6 of 1, 2, 3!"), {"target": 6, "numbers": NUMBERS}, domain="countdown"
    )
    assert countdown.asking_for(row, {"target": 7}) is None
    assert asking_for(TaskRow(user_message("What is 1+2?"), {"value": 3}), {"value": 4}) is None


# -- the operator


def test_first_wrong_answers_are_relabelled_except_cut_masked_or_right_ones():
    goals = {n: countdown.build_countdown_task(n, NUMBERS) for n in range(1, 9)}
    known = {
        2: {"reward": 1.0},
        3: {"stop_reason": "length"},
        4: {"silent": "cut"},
        5: {"is_dialogue": True},
    }
    samples = [
        Sample(
            **{
                "rollout": n,
                "group": 1,
                "text": "x",
                "reward": 0.0,
                "reached": goals,
                **known.get(n, {}),
            }
        )
        for n in range(1, 10)
    ]
    hindsight = operator("hindsight")
    said = hindsight.call(samples, hindsight.read_options({"max_answers": 3}))
    assert said.kept == samples and [made.of.rollout for made in said.made] == [1, 6, 7]
    assert all(made.task == goals[made.of.rollout] for made in said.made)


def test_first_of_answers_with_the_same_result_is_relabelled():
    goal = countdown.build_countdown_task(7, NUMBERS)
    samples = [
        Sample(
            n,
            1,
            "x",
            0.0,
            reached={1: goal, 2: goal, 3: countdown.build_countdown_task(8, NUMBERS)},
        )
        for n in (1, 2, 3)
    ]
    hindsight = operator("hindsight")
    assert [
        made.of.rollout
        for made in hindsight.call(samples, hindsight.read_options({"max_answers": 2})).made
    ] == [1, 3]


# -- the rows


def test_wrong_answer_becomes_an_expert_row_of_another_task_with_its_own_tokens(
    relabelling, answer
):
    run = relabelling()
    [group] = answer(run, "<answer>1*2*3</answer>", "<answer>1+2*3</answer>")
    [made] = Offspring.objects.all()
    wrong = group.rollouts.get(sample_index=1)
    assert (made.of, made.rollout, made.operator, made.tokens) == (
        wrong,
        None,
        "hindsight",
        wrong.completion_tokens,
    )
    assert made.task.answer == {"target": 7, "numbers": NUMBERS} and made.task.meta["parents"] == [
        "count#0"
    ]
    assert made.task.descent.parent == group.task and made.task.taskset.grows
    assert violations() == []
    assert take_in(run) == 1 and take_in(run) == 0
    made.refresh_from_db()
    row = Experience.objects.expert().get()
    assert (row.rollout, row.state, row.reward, row.rollout.origin) == (
        made.rollout,
        "ready",
        None,
        "synthetic",
    )
    assert (row.group.task, row.group.draw_index, row.rollout.text) == (made.task, None, wrong.text)
    tokens = row.rollout.tokens
    assert (
        bytes(tokens.prompt_ids).decode() == made.task.question and "Make 7" in made.task.question
    )
    assert (tokens.completion_ids, tokens.action_mask) == (
        wrong.tokens.completion_ids,
        wrong.tokens.action_mask,
    )
    assert set(tokens.logprobs) == {0.0} and tokens.segments == ()
    assert violations() == []


def test_group_dropped_because_all_answers_are_wrong_still_gives_rows(relabelling, answer):
    run = relabelling(HINDSIGHT, {"operator": "dynamic_sampling"})
    [group] = answer(run, "<answer>1+2*3</answer>", "<answer>1-2+3</answer>")
    reached = Task.objects.filter(taskset__grows=True).values_list("answer__target", flat=True)
    assert group.state == Group.State.DROPPED and sorted(reached) == [2, 7]
    assert (
        OperatorCount.objects.get(operator="hindsight").made == 2
        and take_in(run) == 2
        and violations() == []
    )


def test_rollout_removed_by_an_earlier_operator_is_not_relabelled(relabelling, answer):
    run = relabelling(
        {"operator": "length", "stage": "groups", "options": {"max_tokens": 3}}, HINDSIGHT
    )
    answer(run, "<answer>1+2*3</answer>", "<answer>1-2+3</answer>")
    assert not Offspring.objects.exists() and not Taskset.objects.filter(grows=True).exists()


def test_answers_with_the_same_result_make_one_row_per_run(relabelling, answer):
    run = relabelling()
    other = relabelling()
    answer(run, "<answer>1-2+3</answer>", "<answer>3-2+1</answer>")  # to make 6
    answer(run, "<answer>1-2+3</answer>", "<answer>1*2*3</answer>")  # to make 7
    answer(other, "<answer>1-2+3</answer>", "<answer>3-2+1</answer>")
    assert sorted(
        Offspring.objects.filter(run=run).values_list("task__answer__target", flat=True)
    ) == [2, 6]
    assert (
        Offspring.objects.get(run=other).task.answer["target"] == 2
        and Taskset.objects.filter(grows=True).count() == 2
    )


@pytest.mark.django_db(transaction=True)
def test_one_of_two_concurrent_refiners_makes_the_row(relabelling, answer, finish, eventually):
    run = relabelling(max_staleness=4)
    answer(run, "<answer>1*2*3</answer>", "<answer>1+2*3</answer>")  # the taskset exists already
    for _ in range(2):
        finish(run, ["<answer>1-2+3</answer>", "<answer>3-2+1</answer>"])
    claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 100)
    record_verdicts(
        claimed,
        [AnsweredQuestion(question, judged(question)) for question in open_questions(claimed)],
    )
    first, second = [Group.objects.claim(Group.State.JUDGED, name, 60, 1) for name in "ab"]

    def refined_elsewhere() -> None:
        try:
            refine(second)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as thread:
        with transaction.atomic():
            refine(first)
            other = thread.submit(refined_elsewhere)
            eventually(somebody_waits)
        other.result(timeout=60)
    assert {group.state for group in Group.objects.filter(draw_index__isnull=False)} == {"admitted"}
    assert sorted(Offspring.objects.values_list("task__answer__target", flat=True)) == [2, 7]
    assert (
        Taskset.objects.get(grows=True).size
        == Task.objects.filter(taskset__grows=True).count()
        == 2
    )


def test_updates_use_relabelled_rows_like_demonstrations(relabelling, answer):
    run = relabelling(max_staleness=4)
    answer(run, "<answer>1+2+3</answer>", "<answer>3*2-1</answer>")
    answer(run, "<answer>1+2*3</answer>", "<answer>3*2-1</answer>")
    take_in(run)
    update(run)
    [row] = Experience.objects.expert().filter(run=run, uses__gt=0)
    assert (row.state, row.uses) == ("ready", 1) and violations() == []


def test_answer_whose_arrays_were_released_is_not_relabelled(relabelling, answer):
    run = relabelling()
    [group] = answer(run, "<answer>1*2*3</answer>", "<answer>1+2*3</answer>")
    Rollout.objects.filter(group=group).update(arrays_released_at="2026-01-01T00:00:00Z")
    assert not offspring.not_yet_admitted(run).exists()


def test_answers_suspected_of_hacking_are_not_relabelled(relabelling, answer, alice):
    run = relabelling(max_staleness=4)
    [taken] = answer(run, "<answer>1*2*3</answer>", "<answer>1+2*3</answer>")
    take_in(run)
    [waiting] = answer(run, "<answer>1+2*3</answer>", "<answer>3*2-1</answer>")
    evidence = list(Rollout.objects.filter(group__in=[taken, waiting]).values_list("pk", flat=True))
    suspicion = Suspicion.objects.create(
        run=run, kind="to_judge", words="it pleads", evidence=evidence, first_step=1, last_step=1
    )
    acting.drop_evidence(suspicion, alice)
    assert Experience.objects.expert().get().state == "dropped"
    later = Offspring.objects.get(rollout=None)
    assert (
        later.refused.startswith("suspected of hacking")
        and take_in(run) == 0
        and violations() == []
    )


def test_existing_taskset_of_the_same_name_is_not_changed(relabelling, answer, project):
    generate(project, "run-0-hindsight", "sort", 2, 0)
    answer(relabelling(), "<answer>1*2*3</answer>", "<answer>1+2*3</answer>")
    assert (
        Taskset.objects.get(grows=True).slug == "run-0-hindsight-2"
        and Taskset.objects.get(slug="run-0-hindsight").size == 2
    )


# -- pages


def test_dry_run_shows_the_rows_and_writes_nothing(relabelling, answer):
    run = relabelling({"operator": "reward_spread"})
    answer(run, "<answer>1*2*3</answer>", "<answer>1+2*3</answer>")
    [line] = dry_run(
        run, run.settings.model_validate({**run.config, "pipeline": [HINDSIGHT]}).pipeline
    ).lines
    assert (line.made, line.rows[0].task.answer["target"]) == (
        1,
        7,
    ) and not Offspring.objects.exists()


def test_pages_link_relabelled_rollout_and_parent(relabelling, answer, client, alice):
    run = relabelling()
    [group] = answer(run, "<answer>1*2*3</answer>", "<answer>1+2*3</answer>")
    client.force_login(alice)
    parent = reverse("rollout", args=[group.rollouts.get(sample_index=1).pk])
    assert "pending" in client.get(parent).content.decode()
    take_in(run)
    child = Offspring.objects.get().rollout
    assert "Make 7 from the numbers 1, 2, 3" in client.get(parent).content.decode()
    assert f"rollout {child.pk}" in client.get(parent).content.decode()
    page = client.get(reverse("rollout", args=[child.pk])).content.decode()
    assert (
        f'<a class="link num" href="{parent}">' in page
        and "by hindsight" in page
        and "anchor" not in page
    )
    tried = client.post(
        reverse("run-pipeline-try", args=["lab", run.slug]), {"pipeline": "- operator: hindsight"}
    )
    assert "an expert row of another task" in tried.content.decode()


# -- refused


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"algorithm": "grpo"}, "makes expert rows, but `grpo` uses none"),
        (
            {"rewards": [{"scorer": "sort"}]},
            "requires one of the scorers",
        ),
        (
            {"algorithm": {**MIX, "expert": {**MIX["expert"], "source": "same_prompt"}}},
            "algorithm.expert.source must be `buffer`",
        ),
        (
            {"environment": {"name": "guess_number"}},
            "cannot be used with `environment` or `serve`",
        ),
    ],
)
def test_run_that_cannot_use_hindsight_is_refused_with_the_field(plan, project, changes, why):
    wanted = {"algorithm": MIX, "rewards": [{"scorer": "countdown"}], "pipeline": [HINDSIGHT]}
    found = find_pipeline_problems(plan(**{**wanted, **changes}), project)
    assert list(found) == ["pipeline.0.operator"] and why in found["pipeline.0.operator"]


def test_run_that_can_use_hindsight_is_accepted(plan, project):
    for name in ("countdown", "arithmetic"):
        assert (
            find_pipeline_problems(
                plan(algorithm=MIX, rewards=[{"scorer": name}], pipeline=[HINDSIGHT]), project
            )
            == {}
        )


def test_replay_of_a_run_trained_on_relabelled_rows_is_refused(relabelling, answer):
    run = relabelling(max_staleness=4)
    answer(run, "<answer>1+2+3</answer>", "<answer>3*2-1</answer>")
    answer(run, "<answer>1+2*3</answer>", "<answer>3*2-1</answer>")
    take_in(run)
    assert "expert" in [one.kind for one in batch_of(plan_step(run, run.fence))]
    update(run)
    run.refresh_from_db()
    with pytest.raises(NothingToReplay, match="from its replies: it can’t be replayed"):
        propose(run)


# -- reported violations


def test_reconcile_reports_a_text_that_differs_from_its_parent(relabelling, answer):
    run = relabelling()
    answer(run, "<answer>1*2*3</answer>", "<answer>1+2*3</answer>")
    take_in(run)
    child = Offspring.objects.get().rollout
    Rollout.objects.filter(pk=child.pk).update(text="<answer>7</answer>")
    assert violations() == [f"{child}: the text differs from the answer it was made from"]


def test_reconcile_reports_a_synthetic_rollout_without_a_parent(relabelling, answer):
    run = relabelling()
    answer(run, "<answer>1*2*3</answer>", "<answer>1+2*3</answer>")
    take_in(run)
    child = Offspring.objects.get().rollout
    Offspring.objects.all().delete()
    assert f"{child}: synthetic rollout without a parent" in violations()


def test_tokens_of_a_relabelled_rollout_are_packed_like_others(relabelling, answer):
    run = relabelling()
    answer(run, "<answer>1*2*3</answer>", "<answer>1+2*3</answer>")
    take_in(run)
    tokens = Offspring.objects.get().rollout.tokens
    assert unpacked(pack(tokens)) == tokens != tokens_of("")
