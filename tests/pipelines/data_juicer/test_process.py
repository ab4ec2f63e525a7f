"""The process of data-juicer's filters from our side: it is kept while it answers, and killed and
restarted when it does not.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from apps.pipelines.data_juicer.process import CHILD, MAX_REPLY_LENGTH, FilterProcess, NoAnswer
from apps.rewards.sandbox import seccomp
from tests.pipelines.data_juicer.conftest import ANSWERS


@pytest.fixture
def process():
    made = FilterProcess()
    yield made
    made.stop()


def said(process: FilterProcess, *texts: str):
    return process.ask("text_length_filter", {}, texts).results


def test_one_process_answers_several_requests(answers, process):
    assert said(process, "long enough", "") == [(True, {"len": 11.0}), (False, {"len": 0.0})]
    first = process.child.pid
    assert said(process, "four") == [(False, {"len": 4.0})] and process.child.pid == first


def test_text_larger_than_a_pipe_buffer_gets_an_answer(answers, process):
    assert said(process, "é" * 3_000_000) == [(True, {"len": 3_000_000.0})]


def test_process_that_dies_fails_only_the_current_request(answers, process):
    said(process, "long enough")
    with pytest.raises(NoAnswer, match="exited with 3"):
        said(process, "poison")
    assert said(process, "long enough") == [(True, {"len": 11.0})]


def test_process_that_died_between_two_requests_is_restarted(answers, process):
    said(process, "long enough")
    process.child.kill()
    process.child.wait()
    assert said(process, "long enough") == [(True, {"len": 11.0})]


@pytest.mark.parametrize("hangs", ["while True: time.sleep(60)", "os.close(1); time.sleep(600)"])
def test_hanging_process_is_killed_and_the_next_request_gets_an_answer(interpreter, process, hangs):
    interpreter(ANSWERS.format(poisoned=hangs))
    said(process, "long enough")
    hanging = psutil.Process(process.child.pid)
    process.answer_s = 1
    with pytest.raises(NoAnswer, match=r"took longer than 1 s|exited with -9"):
        said(process, "poison")
    process.answer_s = 60
    assert not hanging.is_running() and said(process, "long enough") == [(True, {"len": 11.0})]


def test_process_that_reads_nothing_times_out(interpreter, process):
    interpreter('print("{}", flush=True)\nimport time\ntime.sleep(600)')
    process.start()
    process.answer_s = 1
    with pytest.raises(NoAnswer, match="took longer than 1 s"):
        said(process, "x" * 900_000)


def test_output_before_the_request_was_read_does_not_count_as_its_answer(interpreter, process):
    interpreter("""
        import sys, time
        print("{}", flush=True)
        sys.stdin.buffer.raw.read(10)
        print('{"results": [[true, {}]]}', flush=True)
        time.sleep(600)
    """)
    process.start()
    process.answer_s = 1
    with pytest.raises(NoAnswer, match="took longer than 1 s"):
        said(process, "x" * 900_000)


def test_time_limit_grows_with_the_text(interpreter, process):
    interpreter(
        'print("{}", flush=True)\nimport json, sys\nprint(json.dumps({"error":'
        ' str(json.loads(input())["seconds"])}))'
    )
    assert (
        process.ask("text_length_filter", {}, ["x" * 2_500_000]).error == "30"
    )  # 10 s for each million characters, plus 5 s


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("hello", "invalid answer"),
        ('{"results": [[1, {}]]}', "invalid answer"),
        ('{"results": [[true, {"len": NaN}]]}', "invalid answer"),
        ('{"results": [[true, {"len": "long"}]]}', "invalid answer"),
        ('{"results": [[true, {}], [true, {}]]}', "answered for 2 texts instead of 1"),
        ("{}", "for 0 texts"),
        ('{"results": []}', "for 0 texts"),
        ('{"results": [[true, {}]]}\\n{"results": [[true, {}]]}', "invalid answer"),
    ],
)
def test_invalid_output_is_not_accepted_and_ends_the_process(interpreter, process, words, why):
    interpreter(
        f"import os\nprint('{{}}', flush=True)\ninput()\nos.write(1, b'''{words}\\n''')\ninput()"
    )
    with pytest.raises(NoAnswer, match=why):
        said(process, "poison")
    assert process.child is None


def test_endless_reply_is_cut_off(interpreter, process):
    interpreter("print('{}', flush=True)\ninput()\nwhile True: print('x' * 1000, end='')")
    with pytest.raises(NoAnswer, match=f"longer than {MAX_REPLY_LENGTH} bytes"):
        said(process, "poison")


def test_process_that_does_not_start_reports_the_reason(interpreter, process):
    interpreter("""print('{"error": "ImportError: no ray"}')""")
    with pytest.raises(NoAnswer, match="did not start: ImportError: no ray"):
        process.start()
    interpreter("import time\ntime.sleep(600)")
    process.start_s = 1
    with pytest.raises(NoAnswer, match="took longer than 1 s"):
        process.start()


def test_missing_package_is_reported_with_the_install_command(settings, process):
    settings.DATA_JUICER_PYTHON = Path("/nonexistent/python")
    with pytest.raises(NoAnswer, match="scripts/setup --with data-juicer"):
        said(process, "long enough")


def test_interpreter_without_the_package_is_reported(settings, process):
    settings.DATA_JUICER_PYTHON = Path(sys.executable)
    with pytest.raises(
        NoAnswer, match="did not start: ModuleNotFoundError: No module named 'data_juicer'"
    ):
        said(process, "long enough")


def test_interpreter_that_cannot_be_started_is_reported(settings, process, tmp_path):
    settings.DATA_JUICER_PYTHON = tmp_path
    with pytest.raises(NoAnswer, match=r"cannot be started: .*Permission denied"):
        said(process, "long enough")


def test_callback_runs_while_the_answer_is_pending(interpreter, process, tmp_path):
    go = tmp_path / "go"
    interpreter(ANSWERS.format(poisoned=f"while not os.path.exists({str(go)!r}): time.sleep(0.01)"))
    process.answer_s = 60
    reply = process.ask("text_length_filter", {}, ["poison"], go.touch)
    assert reply.results == [(True, {"len": 6.0})]


def test_process_does_not_inherit_environment_variables(interpreter, process, monkeypatch):
    monkeypatch.setenv("RFTWEB_SECRET_KEY", "do not tell")
    interpreter("""
        import json, os, sys
        print("{}", flush=True)
        for line in sys.stdin:
            print(json.dumps({"error": json.dumps(dict(os.environ))}), flush=True)
    """)
    seen = json.loads(process.ask("text_length_filter", {}, [""]).error)
    assert (
        not seen.keys() & {"RFTWEB_SECRET_KEY", "DATABASE_URL", "REDIS_URL"}
        and seen["PATH"] == "/nonexistent"
    )


def test_confined_process_cannot_open_sockets_start_programs_or_exceed_its_memory():
    program = """
import importlib.util, resource, socket, subprocess, sys
spec = importlib.util.spec_from_file_location("child", sys.argv[1])
child = importlib.util.module_from_spec(spec)
spec.loader.exec_module(child)
socket.socket().close()
subprocess.run([sys.executable, "-c", ""], check=True)
child.close_in(bytes.fromhex(sys.argv[2]), 1 << 30)
run = lambda: subprocess.run([sys.executable, "-c", ""])
for attempt in (socket.socket, run, lambda: bytearray(2 << 30)):
    try:
        attempt()
    except (OSError, MemoryError) as error:
        print(type(error).__name__)
"""
    asked = [sys.executable, "-c", program, CHILD, seccomp.program(processes=False).hex()]
    done = subprocess.run(
        asked, capture_output=True, text=True, timeout=120, env={"PATH": os.defpath}, check=False
    )
    assert done.stdout.split() == ["PermissionError", "BlockingIOError", "MemoryError"], done.stderr
