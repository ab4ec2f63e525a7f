"""The real data-juicer package, in its own virtual environment: which texts its filters keep, and
by which statistic.
"""

import json
import os
import signal
import subprocess
import sys

import psutil
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from apps.pipelines.checking import find_pipeline_problems
from apps.pipelines.data_juicer.process import FILTERS, MEMORY_BYTES
from apps.pipelines.dry_run import dry_run
from apps.pipelines.operators.data_juicer import OPS
from apps.runs.pipeline import OperatorChoice
from apps.tasksets.models import QuarantinedLine, Taskset

pytestmark = pytest.mark.skipif(
    not settings.DATA_JUICER_PYTHON.exists(),
    reason="the data-juicer package is not installed: scripts/setup --with data-juicer",
)

FOX = "The quick brown fox\njumps over some lazy dogs!"


def asked(op: str, *texts: str, **args: object):
    return FILTERS.ask(op, args, texts)


def one_of(op: str, text: str) -> tuple[str, float]:
    """Return the only statistic of this text, with its name."""
    ((_, stats),) = asked(op, text).results
    ((name, value),) = stats.items()
    return name, value


@pytest.mark.parametrize("op", OPS)
def test_every_supported_filter_returns_a_statistic_for_any_text(op):
    said = asked(op, FOX, "", " ", "слово 日本", "\ufffd\x07", "a" * 50_000).results
    assert len(said) == 6 and all(stats for _, stats in said)


@pytest.mark.parametrize(
    ("op", "statistic"),
    [
        ("text_length_filter", ("text_len", len(FOX))),
        ("words_num_filter", ("num_words", len(FOX.split()))),
        ("maximum_line_length_filter", ("max_line_length", len("jumps over some lazy dogs!"))),
        ("average_line_length_filter", ("avg_line_length", len(FOX) / 2)),
        ("alphanumeric_filter", ("alnum_ratio", sum(map(str.isalnum, FOX)) / len(FOX))),
        ("word_repetition_filter", ("word_rep_ratio", 0.0)),
        ("character_repetition_filter", ("char_rep_ratio", 0.0)),
    ],
)
def test_filter_returns_the_expected_statistic(op, statistic):
    name, value = one_of(op, FOX)
    assert (name, value) == (statistic[0], pytest.approx(statistic[1]))


def test_repetition_filter_distinguishes_a_loop_from_normal_text():
    loop, text = asked(
        "word_repetition_filter", "and so on " * 30, FOX, rep_len=3, max_ratio=0.2
    ).results
    assert (loop[0], text[0]) == (False, True) and loop[1]["word_rep_ratio"] > 0.9


def test_range_follows_the_arguments():
    texts = ["x" * length for length in (4, 5, 6, 7)]
    assert [
        kept for kept, _ in asked("text_length_filter", *texts, min_len=5, max_len=6).results
    ] == [
        False,
        True,
        True,
        False,
    ]
    assert [
        kept
        for kept, _ in asked(
            "text_length_filter", *texts, min_len=5, min_closed_interval=False
        ).results
    ] == [
        False,
        False,
        True,
        True,
    ]
    assert [
        kept
        for kept, _ in asked(
            "text_length_filter", *texts, min_len=4, max_len=6, reversed_range=True
        ).results
    ] == [
        True,
        False,
        True,
        True,
    ]


def test_arguments_are_checked_by_name_and_type():
    wrong = asked(
        "word_repetition_filter", "", rep_len=0, max_ratio="half", most=1, work_dir="/tmp"
    ).wrong
    assert wrong.keys() == {"rep_len", "max_ratio", "most", "work_dir"}
    assert "greater than 0" in wrong["rep_len"] and "valid number" in wrong["max_ratio"]
    assert (
        "no such argument; it takes lang, tokenization, rep_len, min_ratio, max_ratio, "
        in wrong["most"]
    )


@pytest.mark.parametrize(
    "op", ["alphanumeric_filter", "word_repetition_filter", "words_num_filter"]
)
def test_filter_that_needs_a_model_returns_an_error_and_the_process_goes_on(op):
    assert asked(op, FOX, tokenization=True).error
    assert asked(op, FOX).results, "the next question must be answered"


def test_process_has_a_memory_limit_and_no_network_connections():
    asked("text_length_filter", "")
    process = psutil.Process(FILTERS.child.pid)
    assert (
        process.rlimit(psutil.RLIMIT_DATA) == (MEMORY_BYTES, MEMORY_BYTES)
        and not process.net_connections()
    )


def test_filter_process_ends_with_its_parent_process(eventually):
    program = """
import django, time
django.setup()
from apps.pipelines.data_juicer.process import FILTERS
FILTERS.start()
print(FILTERS.child.pid, flush=True)
time.sleep(600)
"""
    asking = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        cwd=settings.BASE_DIR,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "rftweb.settings",
            "RFTWEB_LOG_LEVEL": "ERROR",
        },
    )
    try:
        child = psutil.Process(int(asking.stdout.readline()))
    finally:
        asking.send_signal(signal.SIGKILL)
        asking.wait()
        asking.stdout.close()
    eventually(lambda: has_ended(child))


def has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE  # perhaps no parent waits for it
    except psutil.NoSuchProcess:
        return True


# -- in pipelines


def test_run_with_a_wrong_filter_argument_is_refused_with_the_argument_name(plan, project, taskset):
    said = {
        "operator": "data_juicer",
        "options": {"op": "text_length_filter", "args": {"least": 3}},
    }
    found = find_pipeline_problems(plan(pipeline=[said]), project)
    ((field, why),) = found.items()
    assert field == "pipeline.0.options.args.least" and "it takes min_len, max_len," in why


def test_run_whose_filter_needs_a_model_is_refused(plan, project, taskset):
    said = {
        "operator": "data_juicer",
        "options": {"op": "words_num_filter", "args": {"tokenization": True}},
    }
    found = find_pipeline_problems(plan(pipeline=[said]), project)
    assert (
        found.keys() == {"pipeline.0.options.args"}
        and "models and the network are not available" in found["pipeline.0.options.args"]
    )


def test_import_leaves_out_tasks_that_the_filter_rejects(project, tmp_path):
    path = tmp_path / "sums.jsonl"
    path.write_text(
        "\n".join(
            json.dumps({"prompt": said, "answer": 1})
            for said in ("1+1", "a question of some length", "2+2=")
        )
    )
    call_command(
        "taskset",
        "import",
        str(path),
        "--project",
        project.slug,
        "--operator",
        "data_juicer",
        "--option",
        "op=text_length_filter",
        "--option",
        "args={min_len: 4}",
    )
    kept = [task.question for task in Taskset.objects.get(slug="sums").tasks.order_by("index")]
    assert kept == ["a question of some length", "2+2="]
    (aside,) = QuarantinedLine.objects.all()
    assert (aside.line, aside.reason) == (1, "data_juicer: text_length_filter: text_len 3")


def test_import_with_a_wrong_argument_is_refused(project, tmp_path):
    (tmp_path / "sums.jsonl").write_text('{"prompt": "1+1", "answer": 2}')
    with pytest.raises(CommandError, match=r"args\.least: text_length_filter has no such argument"):
        call_command(
            "taskset",
            "import",
            str(tmp_path / "sums.jsonl"),
            "--project",
            project.slug,
            "--operator",
            "data_juicer",
            "--option",
            "op=text_length_filter",
            "--option",
            "args={least: 4}",
        )


def test_dry_run_shows_what_the_filter_would_leave_out(new_run, judge):
    run = new_run()
    judge(run, (0.0, 1.0))
    said = OperatorChoice(
        operator="data_juicer", options={"op": "alphanumeric_filter", "args": {"max_ratio": 0.5}}
    )
    found = dry_run(run, [said])
    assert (found.before, found.after) == ((1, 2), (0, 0)) and found.failed == []
    assert found.lines[0].reasons == [("alphanumeric_filter: alnum_ratio 1", 2)]
