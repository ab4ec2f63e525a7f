"""Requests of groups, tasks and pipelines to data-juicer's filters, with a stand-in for its
process: which fail, and which are refused.
"""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from apps.pipelines.applying import OperatorFailed
from apps.pipelines.checking import find_pipeline_problems, operators_of_import
from apps.pipelines.data_juicer import asking
from apps.pipelines.data_juicer.asking import filtered
from apps.pipelines.models import CutRollout
from apps.pipelines.operators import find_operator
from apps.pipelines.refining import load_cases, refine
from apps.pipelines.tasks import build_task_filter
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.models import Group, Rollout
from apps.runs.config import ConfigError
from tests.pipelines.data_juicer.conftest import ANSWERS

LONG_ENOUGH = {"operator": "data_juicer", "options": {"op": "text_length_filter"}}


@pytest.fixture
def judged(finish):
    """Create groups of a run with these texts, one tuple per group, that wait for the refiner; the
    rewards in each group are 0 and 1.
    """

    def finish_groups(run, *groups: tuple[str, str]) -> list[Group]:
        opened = [group for texts in groups for group in finish(run, texts)]
        claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 100)
        second = set(
            Rollout.objects.filter(group__in=opened, sample_index=1).values_list("pk", flat=True)
        )
        words = [
            AnsweredQuestion(one, [Verdict(float(one.rollout_ids[0] in second), "test")])
            for one in open_questions(claimed)
        ]
        record_verdicts(claimed, words)
        return opened

    return finish_groups


def refined(groups: list[Group]) -> list[Group]:
    refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 100))
    return [Group.objects.get(pk=group.pk) for group in groups]


def test_rollout_rejected_by_the_filter_is_cut_with_its_statistic(answers, new_run, judged):
    run = new_run(pipeline=[LONG_ENOUGH])
    refined(judged(run, ("12345", "1"), ("12345", "123456")))
    (cut,) = CutRollout.objects.all()
    assert (cut.operator, cut.reason, cut.rollout.text) == (
        "data_juicer",
        "text_length_filter: len 1",
        "1",
    )


@pytest.mark.parametrize(
    "poisoned",
    ["os._exit(3)", 'print("nonsense")', 'print(json.dumps({"error": "ValueError: no"}))'],
)
def test_only_the_group_without_an_answer_fails_and_is_tried_again(
    interpreter, new_run, judged, poisoned
):
    interpreter(ANSWERS.format(poisoned=f"{poisoned}; sys.stdout.flush(); continue"))
    run = new_run(pipeline=[LONG_ENOUGH], group_attempts=2)
    groups = judged(run, ("long enough", "12345"), ("poison", "12345"), ("12345", "123456"))
    first, failing, last = refined(groups)
    assert first.state == last.state == Group.State.ADMITTED
    assert (failing.state, failing.attempts) == (Group.State.JUDGED, 1)
    first, failing, last = refined(groups)
    assert (
        failing.state == Group.State.DROPPED
        and "failed 2 times: data_juicer: LookupError: text_length" in failing.reason
    )


def test_failed_group_is_admitted_when_the_next_try_gets_an_answer(
    interpreter, answers, new_run, judged
):
    run = new_run(pipeline=[LONG_ENOUGH])
    groups = judged(run, ("poison", "12345"))
    (failing,) = refined(groups)
    assert failing.state == Group.State.JUDGED
    interpreter(ANSWERS.format(poisoned="pass"))
    (group,) = refined(groups)
    assert group.state == Group.State.ADMITTED


def test_leases_are_extended_while_groups_wait_for_answers(
    interpreter, new_run, judged, settings, tmp_path, monkeypatch
):
    """The filter answers only after the leases have been extended."""
    go = tmp_path / "go"
    interpreter(ANSWERS.format(poisoned=f"while not os.path.exists({str(go)!r}): time.sleep(0.01)"))
    settings.LEASE_SECONDS = 36_000
    run = new_run()
    judged(run, ("poison", "12345"))
    (claimed,) = Group.objects.claim(Group.State.JUDGED, "r", 60, 100)
    keep = asking._leases_of

    def kept_and_told(cases):
        keep_them = keep(cases)
        return lambda: (keep_them(), go.touch())

    monkeypatch.setattr(asking, "_leases_of", kept_and_told)
    ((said,),) = (
        one.values()
        for one in filtered(
            load_cases([claimed]),
            [find_operator("data_juicer").read_options(LONG_ENOUGH["options"])],
        )
    )
    claimed.refresh_from_db()
    assert said["poison"].is_kept and claimed.lease_until > timezone.now() + timedelta(hours=5)


def test_equal_texts_are_sent_once_and_repeated_filters_are_evaluated_separately(
    answers, new_run, judged
):
    (group,) = judged(new_run(), ("12345", "12345"))
    ops = ("text_length_filter", "words_num_filter", "words_num_filter")
    options = [find_operator("data_juicer").read_options({"op": op}) for op in ops]
    (said,) = filtered(load_cases([group]), options)
    assert [list(texts) for texts in said.values()] == [["12345"], ["12345"]]


def test_texts_beyond_the_size_limit_are_sent_in_parts(answers, new_run, judged, monkeypatch):
    monkeypatch.setattr(asking, "CHARACTERS", 6)
    (group,) = judged(new_run(), ("1" * 20, "123"))
    (said,) = filtered(
        load_cases([group]), [find_operator("data_juicer").read_options(LONG_ENOUGH["options"])]
    )
    assert [(text, one.is_kept) for texts in said.values() for text, one in texts.items()] == [
        ("1" * 20, True),
        ("123", False),
    ]


# -- tasks


def on_tasks(run) -> list[int]:
    groups = Group.open(run, "e", 60, 4, run.published_version, build_task_filter(run.settings))
    return [group.task.index for group in groups]


def test_tasks_rejected_by_the_filter_are_not_drawn(answers, new_run, taskset):
    for index, text in enumerate(("12", "12345", "123", "123456")):
        taskset.tasks.filter(index=index).update(prompt=[{"role": "user", "content": text}])
    run = new_run(
        pipeline=[{**LONG_ENOUGH, "stage": "tasks"}], selection="sequential", max_staleness=9
    )
    assert set(on_tasks(run)) == {1, 3}
    assert sorted(run.left_out.values_list("task__index", "reason")) == [
        (0, "data_juicer: text_length_filter: len 2"),
        (2, "data_juicer: text_length_filter: len 3"),
    ]


def test_no_task_is_drawn_when_the_filter_process_does_not_answer(interpreter, new_run):
    interpreter("""print('{"error": "ImportError: no ray"}')""")
    run = new_run(pipeline=[{**LONG_ENOUGH, "stage": "tasks"}])
    with pytest.raises(
        OperatorFailed, match="data_juicer: the process did not start: ImportError: no ray"
    ):
        build_task_filter(run.settings)
    interpreter("import sys")
    with pytest.raises(OperatorFailed, match="data_juicer: the process exited with 0"):
        on_tasks(run)
    assert not run.groups.exists() and not run.left_out.exists()


def test_task_without_an_answer_from_the_filter_is_not_drawn(answers, new_run, taskset):
    taskset.tasks.update(prompt=[{"role": "user", "content": "poison"}])
    run = new_run(pipeline=[{**LONG_ENOUGH, "stage": "tasks"}])
    with pytest.raises(
        OperatorFailed,
        match="data_juicer: LookupError: text_length_filter: the process exited with 3",
    ):
        on_tasks(run)
    assert not run.groups.exists() and not run.left_out.exists()


# -- refused


def refusals(plan, project, taskset, **options) -> dict[str, str]:
    return find_pipeline_problems(
        plan(pipeline=[{"operator": "encoding"}, {"operator": "data_juicer", "options": options}]),
        project,
    )


def test_pipeline_with_a_working_filter_is_accepted(answers, plan, project, taskset):
    assert refusals(plan, project, taskset, op="text_length_filter") == {}


@pytest.mark.parametrize(
    "op",
    [
        "clean_email_mapper",
        "image_shape_filter",
        "text_length_filterr",
        "language_id_score_filter",
        7,
    ],
)
def test_unsupported_filter_is_refused_with_the_supported_ones(
    plan, project, taskset, settings, op
):
    settings.DATA_JUICER_PYTHON = Path("/nonexistent")
    (why,) = (found := refusals(plan, project, taskset, op=op)).values()
    assert (
        found.keys() == {"pipeline.1.options.op"}
        and f"{op!r} is not supported; choose one of alphanumeric_filter, " in why
    )


def test_pipeline_without_the_installed_package_is_refused_with_the_install_command(
    plan, project, taskset, settings
):
    settings.DATA_JUICER_PYTHON = Path("/nonexistent")
    found = refusals(plan, project, taskset, op="text_length_filter")
    assert found == {
        "pipeline.1.operator": (
            "the data-juicer package is not installed here: run scripts/setup --with data-juicer"
        )
    }


SAYS = """
    import sys
    print("{{}}", flush=True)
    for line in sys.stdin:
        print('{answer}', flush=True)
"""


@pytest.mark.parametrize(
    ("answer", "field", "words"),
    [
        ('{"wrong": {"least": "no such argument"}}', "options.args.least", "no such argument"),
        (
            '{"error": "OSError: no model"}',
            "options.args",
            "the network are not available: OSError: no model",
        ),
        ("nonsense", "operator", "invalid answer"),
    ],
)
def test_arguments_that_the_filter_does_not_accept_are_refused(
    interpreter, plan, project, taskset, answer, field, words
):
    interpreter(SAYS.format(answer=answer))
    found = refusals(plan, project, taskset, op="text_length_filter", args={"least": 1})
    assert found.keys() == {f"pipeline.1.{field}"} and words in found[f"pipeline.1.{field}"]


def test_import_without_the_installed_package_is_refused(project, settings):
    settings.DATA_JUICER_PYTHON = Path("/nonexistent")
    with pytest.raises(ConfigError, match="scripts/setup --with data-juicer") as refused:
        operators_of_import([LONG_ENOUGH], project)
    assert refused.value.problems.keys() == {"0.operator"}
