"""Workers turn uploaded files into complete tasksets or none, even when killed, and always report
the reason of a failure.
"""

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as arrow
import pyarrow.parquet as pq
import pytest
from django.conf import settings as configured
from django.db import connection
from django.db.models.functions import Now

from apps.leases.work import MAX_ATTEMPTS
from apps.streaming import wakeups, worker_notifications
from apps.tasksets import import_files
from apps.tasksets.column_choice import ImportOptions, guess_columns, look_at_rows
from apps.tasksets.import_files import TooManyHeld, clear_away, create_import
from apps.tasksets.models import ImportOver, QuarantinedLine, Task, Taskset, TasksetImport
from apps.tasksets.previewing import preview_file
from tests.browser.conftest import _url_of
from workers.importing import job
from workers.importing.importing import Reading, import_next_file
from workers.on_demand import OnDemand

# The reader stores its progress on its own connection, which sees only committed rows.
pytestmark = pytest.mark.django_db(transaction=True)
State = TasksetImport.State


@pytest.fixture(autouse=True)
def folder(settings, tmp_path) -> Path:
    settings.IMPORTS_ROOT = tmp_path / "imports"
    return settings.IMPORTS_ROOT


@pytest.fixture
def sent(project, alice):
    """Return a function that creates an import of these lines, started by default."""

    def send(
        *lines: object,
        name: str = "sums.jsonl",
        slug: str = "sums",
        started: bool = True,
        **how: object,
    ) -> TasksetImport:
        raw = "".join(
            (line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines
        ).encode()
        made = create_import(project, alice, name, len(raw), [raw])
        preview = preview_file(made.path, ImportOptions())
        how_guessed = guess_columns(preview, ImportOptions()).written()
        TasksetImport.objects.filter(pk=made.pk).update(
            state=State.LOOKED_AT, preview=preview, how=how_guessed
        )
        made.refresh_from_db()
        if started:
            made.start(slug, ImportOptions(**how).written())
        return made

    return send


def rows(count: int) -> list[dict]:
    return [{"prompt": f"{n}+1", "answer": n + 1} for n in range(count)]


def ended(one: TasksetImport) -> TasksetImport:
    while import_next_file("test"):
        pass
    one.refresh_from_db()
    return one


def test_uploaded_file_becomes_a_taskset_and_is_deleted(sent, alice, folder):
    one = ended(sent(*rows(1_500)))
    assert (one.state, one.rows, one.at, one.share) == (State.DONE, 1_500, one.bytes, 1.0)
    assert (one.taskset.slug, one.taskset.size, one.taskset.created_by, one.taskset.source) == (
        "sums",
        1_500,
        alice,
        "sums.jsonl",
    )
    assert list(folder.iterdir()) == []


def test_file_is_read_with_the_chosen_options(sent):
    lines = [{"q": "a", "a": "b", "level": 1}, {"q": "a", "a": "b", "level": 2}, "oops"]
    one = ended(
        sent(
            *lines,
            prompt="q",
            answer="a",
            answer_key="word",
            more_meta=("level",),
            quarantine=True,
            duplicates="drop",
        )
    )
    task = one.taskset.tasks.get()
    assert (task.question, task.answer, task.meta) == ("a", {"word": "b"}, {"level": 1})
    assert list(QuarantinedLine.objects.values_list("line", "same_as")) == [(2, 1), (3, None)]


def test_bad_lines_fail_the_import_with_their_reasons_and_nothing_is_stored(sent, folder):
    one = ended(sent(*rows(3), "oops", *["{}"] * 150))
    assert one.state == State.FAILED and one.reason == "some lines are not valid tasks"
    assert (
        one.bad_count == 151
        and len(one.bad) == 100
        and one.bad[0][0] == 4
        and one.bad[0][2] == "oops"
    )
    assert not Taskset.objects.exists() and list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("lines", "how", "reason"),
    [
        (rows(1), {"format": "parquet"}, "not a readable Parquet file"),
        ([""], {}, "no task in it"),
        (rows(1), {"slug": "sort"}, "'sort' already exists"),
    ],
)
def test_failed_import_reports_the_reason(sent, taskset, lines, how, reason):
    one = ended(sent(*lines, **how))
    assert one.state == State.FAILED and reason in one.reason


def test_missing_file_error_names_the_setting(sent):
    one = sent(*rows(1))
    one.path.unlink()
    assert "RFTWEB_IMPORTS" in ended(one).reason


def test_unexpected_error_fails_the_import_and_the_next_file_is_read(sent, monkeypatch):
    first = sent(*rows(1))
    second = sent(*rows(1), slug="other")
    monkeypatch.setattr(ImportOptions, "read", classmethod(lambda cls, stored: 1 / 0))
    assert import_next_file("test")
    monkeypatch.undo()
    assert ended(second).state == State.DONE
    first.refresh_from_db()
    assert (first.state, first.reason) == (State.FAILED, "ZeroDivisionError: division by zero")


def test_picture_paths_to_other_uploads_are_refused(sent, folder):
    content = [{"type": "image", "path": "2.png"}, {"type": "text", "text": "what?"}]
    one = ended(sent({"prompt": [{"role": "user", "content": content}], "answer": 1}))
    assert "only allowed in an imported file" in one.bad[0][1]


# -- leases


def test_two_workers_take_different_files(sent):
    first = sent(*rows(1))
    second = sent(*rows(1))
    assert [TasksetImport.objects.claim(who, 60) for who in ("one", "two", "three")] == [
        first,
        second,
        None,
    ]


def test_unstarted_and_stopped_imports_are_not_claimed(sent):
    sent(*rows(1), started=False)
    sent(*rows(1)).stop("stopped")
    assert not import_next_file("test")


def test_reader_with_an_expired_lease_stores_nothing(sent):
    one = sent(*rows(5))
    late = TasksetImport.objects.claim("late", 60)
    TasksetImport.objects.update(lease_until=Now())
    assert ended(one).state == State.DONE
    assert not late.renew(60, rows=5, at=5)
    with pytest.raises(ImportOver):
        late.finish(one.taskset, 5)
    with pytest.raises(ImportOver):
        late.fail("late")


def test_reader_stops_when_its_import_is_stopped(sent):
    one = sent(*rows(5))
    reading = Reading(TasksetImport.objects.claim("test", 60))
    reading.tell()
    reading.go_on(3, 30)
    one.stop("stopped by alice")
    reading.tell()
    with pytest.raises(ImportOver):
        reading.go_on(4, 40)
    one.refresh_from_db()
    assert (one.state, one.reason) == (State.STOPPED, "stopped by alice")


def test_progress_of_an_import_is_visible(sent):
    one = sent(*rows(5))
    reading = Reading(TasksetImport.objects.claim("test", 60), rows=3, at=one.bytes // 2)
    reading.tell()
    one.refresh_from_db()
    assert one.rows == 3 and 0.4 < one.share < 0.6


def test_file_that_kills_its_workers_fails_with_the_reason(sent):
    one = sent(*rows(1))
    for _ in range(MAX_ATTEMPTS):
        assert TasksetImport.objects.claim("dying", 60)
        TasksetImport.objects.update(lease_until=Now())
    assert "the worker stopped during each" in ended(one).reason and not Taskset.objects.exists()


# -- the process


@pytest.fixture
def processes(monkeypatch, folder):
    """Let the job's processes use the test's database and folder, and stop them at the end."""
    monkeypatch.setenv("DATABASE_URL", _url_of(connection.settings_dict))
    monkeypatch.setenv("REDIS_URL", configured.REDIS_URL)
    monkeypatch.setenv("RFTWEB_VAR", str(configured.VAR))
    monkeypatch.setenv("RFTWEB_IMPORTS", str(folder))
    monkeypatch.setattr(job, "IDLE_S", 0)
    importer = OnDemand("workers.importing", job="import_tasksets")
    monkeypatch.setattr(job, "importer", importer)
    yield importer
    if importer.process:
        importer.process.kill()
        importer.process.wait()


def test_job_starts_one_process_while_an_import_is_due_and_the_process_ends_itself(sent, processes):
    job.start_importer()
    assert processes.process is None
    first = sent(*rows(3))
    second = sent(*rows(3), slug="other")
    job.start_importer()
    begun = processes.process
    job.start_importer()
    assert processes.process is begun and begun.wait(300) == 0
    assert {TasksetImport.objects.get(pk=one.pk).state for one in (first, second)} == {State.DONE}


def test_process_waits_for_the_next_import(sent, processes, eventually, monkeypatch):
    monkeypatch.setattr(job, "IDLE_S", 600)
    first = sent(*rows(3))
    job.start_importer()
    begun = processes.process
    eventually(lambda: TasksetImport.objects.get(pk=first.pk).state == State.DONE, 300)
    second = sent(*rows(3), slug="other")
    eventually(lambda: TasksetImport.objects.get(pk=second.pk).state == State.DONE, 300)
    assert begun.poll() is None


def test_the_job_runs_again_once_the_process_has_ended(sent, processes, eventually):
    """A file uploaded while the process ends must not wait for beat."""
    worker_notifications.connection().delete("control")
    sent(*rows(3))
    job.start_importer()
    assert processes.process.wait(300) == 0
    eventually(lambda: wakeups.jobs_in("control") == ["import_tasksets"], 30)
    worker_notifications.connection().delete("control")


def test_import_of_a_killed_process_is_completed_once_by_the_next(sent, processes, eventually):
    one = sent(*rows(40_000))
    job.start_importer()
    eventually(
        lambda: TasksetImport.objects.filter(pk=one.pk, rows__gt=0, state=State.RUNNING).exists(),
        300,
    )
    processes.process.kill()
    processes.process.wait()
    assert not Taskset.objects.exists() and not Task.objects.exists()
    TasksetImport.objects.update(lease_until=Now())
    job.start_importer()
    assert processes.process.wait(400) == 0
    one.refresh_from_db()
    assert (one.state, one.attempts, one.taskset.size, Task.objects.count()) == (
        State.DONE,
        2,
        40_000,
        40_000,
    )


@pytest.mark.slow
def test_small_file_that_needs_much_memory_fails_and_the_next_is_read(
    project, alice, processes, tmp_path
):
    """The Parquet file has 200 rows of one text of 20 million characters, stored once."""
    texts = arrow.DictionaryArray.from_arrays(
        arrow.array([0] * 200, arrow.int32()), arrow.array(["x" * 20_000_000])
    )
    pq.write_table(
        arrow.table({"prompt": texts}), tmp_path / "bomb", compression="zstd", store_schema=False
    )
    raw = (tmp_path / "bomb").read_bytes()
    assert len(raw) < 10_000
    bomb = create_import(project, alice, "a.parquet", len(raw), [raw])
    good = create_import(project, alice, "b.csv", 8, [b"prompt\n1\n"])
    job.start_importer()
    assert processes.process.wait(300) == 0
    bomb.refresh_from_db()
    good.refresh_from_db()
    assert (bomb.state, good.state) == (State.LOOKED_AT, State.LOOKED_AT)
    assert "more than 1024 MB of memory" in bomb.preview["refusal"]
    assert not good.preview["refusal"]


# -- files


def test_project_can_hold_a_limited_number_of_files(sent, monkeypatch, folder):
    monkeypatch.setattr(import_files, "MAX_HELD", 2)
    first = sent("a", started=False)
    _ = sent("b")
    with pytest.raises(TooManyHeld, match="lab has 2 uploaded files"):
        sent("c")
    first.stop("discarded")
    sent("c")
    assert len(list(folder.iterdir())) == 2


def test_a_file_that_cannot_be_written_leaves_nothing(project, alice, folder):
    def torn():
        yield b"half"
        raise OSError("the disk is full")

    with pytest.raises(OSError):
        create_import(project, alice, "a.csv", 9, torn())
    assert not TasksetImport.objects.exists() and list(folder.iterdir()) == []


def test_imports_unstarted_for_a_day_and_orphaned_files_are_deleted(sent, folder):
    old = sent("a", started=False)
    new = sent("b", started=False)
    TasksetImport.objects.filter(pk=old.pk).update(created_at="2020-01-01T00:00Z")
    (folder / "0.jsonl").write_text("nobody's")
    for file in folder.iterdir():
        os.utime(file, (0, 0))
    assert clear_away() == 2
    assert [file.name for file in folder.iterdir()] == [new.path.name]
    old.refresh_from_db()
    assert (old.state, old.reason) == (State.STOPPED, "not started within 24 hours")


# -- looking


def test_columns_are_guessed_by_their_names(sent):
    one = sent({"question": "a", "solution": "b", "id": 7}, started=False)
    how = ImportOptions.read(one.how)
    assert (how.prompt, how.answer, how.domain, how.meta) == ("question", "solution", "", "")
    seen = look_at_rows(one.preview, how)
    assert (
        seen.columns == ["question", "solution", "id"]
        and seen.rows[0].answer == {"value": "b"}
        and not seen.bad
    )


def test_preview_reads_only_the_first_rows_and_reports_bad_ones(sent):
    one = sent(*rows(5), "oops", *rows(50), started=False)
    seen = look_at_rows(one.preview, ImportOptions())
    assert len(seen.rows) == 20 and [line.number for line in seen.bad] == [6]


def test_preview_of_an_unreadable_file_reports_the_reason(sent):
    one = sent("a", started=False)
    one.ask_preview(ImportOptions(format="arrow").written())
    assert import_next_file("test")
    one.refresh_from_db()
    assert (
        "not a readable Arrow IPC" in look_at_rows(one.preview, ImportOptions()).refusal
        and one.state == State.LOOKED_AT
    )


def test_import_options_survive_storing_as_json(sent):
    how = ImportOptions(more_meta=("a", "b"), duplicates="drop", answer="")
    assert (
        ImportOptions.read(json.loads(json.dumps(how.written()))) == how
        and how.columns.answer is None
    )


def test_a_column_that_is_not_chosen_is_not_read(sent):
    one = sent({"prompt": "a", "answer": 1, "": "Not A Domain", "meta": 7}, started=False)
    seen = look_at_rows(one.preview, ImportOptions(domain="", follow_ups="", meta=""))
    assert not seen.bad and seen.rows[0].domain == "" and seen.rows[0].meta == {}


READ_QUICKLY = """
import django
django.setup()
from django.db import connection
from apps.accounts.confining import confine
from workers.importing.importing import import_next_file
connection.ensure_connection()
confine(cpu_s=1)
import_next_file("hurried")
"""


def test_file_that_takes_too_much_processor_time_fails_with_the_reason(sent, processes):
    one = sent(*rows(40_000))
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "rftweb.settings"}
    command = [sys.executable, "-c", READ_QUICKLY]
    subprocess.run(command, cwd=configured.BASE_DIR, env=environment, timeout=120, check=True)
    one.refresh_from_db()
    assert one.state == State.FAILED
    assert one.reason.startswith("reading the file takes more than 1 seconds of processor time")


def arrow_stream() -> bytes:
    table = arrow.table({"prompt": ["a"] * 500, "answer": ["b"] * 500})
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def packed(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_DOT_", "."), content)
    return stream.getvalue()


LISTED = json.dumps({"_data_files": [{"filename": "a.arrow"}]}).encode()
DAMAGED = {
    "a.parquet": b"PAR1 and nothing else",
    "b.parquet": b"",
    "a.arrow": arrow_stream()[:-700],
    "a.csv": b'prompt,answer\n"a,b\n\xff\xfe\n',
    "a.jsonl": b"\xff\xfe{]\n",
    "a.zip": b"PK\x03\x04 and nothing else",
    "empty.zip": packed(),
    "member.zip": packed(train_DOT_parquet=b"PAR1"),
    "folder.zip": packed(state_DOT_json=LISTED, a_DOT_arrow=b"ARROW1"),
    "clash.zip": packed(a_DOT_csv=b"x", a_DOT_csv__b_DOT_csv=b"x"),
    "clash2.zip": packed(a_DOT_csv__b_DOT_csv=b"x", a_DOT_csv=b"x"),
    "missing.zip": packed(state_DOT_json=LISTED),
    "splits.zip": packed(
        dataset_dict_DOT_json=b'{"splits": ["train"]}', train__state_DOT_json=b"{"
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_errors_about_a_damaged_file_contain_no_server_paths(name, project, alice, folder):
    raw = DAMAGED[name]
    one = ended(create_import(project, alice, name, len(raw), [raw]))
    if one.state == State.LOOKED_AT:
        one.start("damaged", ImportOptions.read(one.how).written())
        one = ended(one)
    said = json.dumps([one.reason, one.preview, one.bad])
    assert one.state == State.FAILED and one.reason
    assert str(folder.parent) not in said and str(configured.BASE_DIR) not in said
