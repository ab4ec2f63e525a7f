"""`manage.py taskset import` of every format: column names, splits, and the loading code of the
Hub on a folder.
"""

import io
import json

import pyarrow as arrow
import pyarrow.parquet as pq
import pytest
from django.core.management import CommandError, call_command

from apps.tasksets.models import Taskset
from apps.tasksets.rows import TaskRow
from apps.tasksets.storing import Origin, store_taskset

pytestmark = pytest.mark.django_db
ROWS = [{"question": f"{n}+1", "result": str(n + 1), "grade": n} for n in range(5)]
MAPPED = ("--prompt", "question", "--answer", "result", "--meta", "grade")


def said(*arguments: object) -> str:
    out = io.StringIO()
    call_command("taskset", *map(str, arguments), stdout=out)
    return out.getvalue()


def refusal(*arguments: object) -> str:
    with pytest.raises(CommandError) as caught:
        said(*arguments)
    return str(caught.value)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "set").mkdir()
    pq.write_table(arrow.Table.from_pylist(ROWS), tmp_path / "set" / "train-00000-of-00001.parquet")
    pq.write_table(
        arrow.Table.from_pylist(ROWS[:2]), tmp_path / "set" / "test-00000-of-00001.parquet"
    )
    return tmp_path / "set"


def test_parquet_file_is_imported_with_mapped_columns(project, folder):
    assert "5 tasks" in said(
        "import", folder / "train-00000-of-00001.parquet", "--slug", "sums", *MAPPED
    )
    task = Taskset.objects.get(slug="sums").tasks.get(index=3)
    assert (task.question, task.answer, task.meta) == ("3+1", {"value": "4"}, {"grade": 3})


def test_folder_with_several_splits_requires_a_split(project, folder):
    assert "choose a split" in refusal("import", folder, *MAPPED)
    assert "2 tasks" in said("import", folder, "--split", "test", "--slug", "two", *MAPPED)
    assert Taskset.objects.get(slug="two").source == "set  test"


def test_damaged_file_is_refused_with_the_reason(project, tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    assert "not a readable Parquet file" in refusal("import", tmp_path / "a.parquet")
    assert not Taskset.objects.exists()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["taskset", "demonstrations"])
def test_a_small_file_that_needs_much_memory_is_refused_with_the_limit(project, tmp_path, command):
    """The file has 200 rows of one text of 20 million characters, stored only once."""
    texts = arrow.DictionaryArray.from_arrays(
        arrow.array([0] * 200, arrow.int32()), arrow.array(["x" * 20_000_000])
    )
    path = tmp_path / "a.parquet"
    table = arrow.table({"prompt": texts, "answer": texts})
    pq.write_table(table, path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 20_000
    with pytest.raises(CommandError, match="takes more than 1024 MB of memory"):
        call_command(command, "import", str(path))
    assert not Taskset.objects.exists()


@pytest.mark.parametrize("command", ["taskset", "demonstrations"])
def test_command_decodes_no_file_in_its_own_process(project, tmp_path, monkeypatch, command):
    """Only a child process with bounded memory decodes, even for harmless files."""
    monkeypatch.setattr("apps.accounts.confining._serves", True)
    rows = [{"prompt": "2+2?", "answer": "4"}]
    pq.write_table(arrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    out = io.StringIO()
    call_command(command, "import", str(tmp_path / "a.parquet"), "--preview", stdout=out)
    assert "user: 2+2?" in out.getvalue()


def test_hub_option_loads_a_folder_by_the_code_of_datasets(project, folder):
    """`datasets` accepts a folder instead of a name on the Hub, and reads both by the same code."""
    pytest.importorskip("datasets")
    assert "--split: choose one of train, test" in refusal("import", folder, "--hub", *MAPPED)
    assert "5 tasks" in said(
        "import", folder, "--hub", "--split", "train", "--slug", "hub", *MAPPED
    )
    task = Taskset.objects.get(slug="hub").tasks.get(index=4)
    assert (task.question, task.answer, task.meta) == ("4+1", {"value": "5"}, {"grade": 4})


def test_missing_dataset_is_reported_in_one_line(project, tmp_path):
    pytest.importorskip("datasets")
    message = refusal("import", tmp_path / "nothing", "--hub")
    assert len(message.splitlines()) == 1 and "nothing" in message


def test_script_in_a_dataset_is_never_run(project, folder, tmp_path):
    pytest.importorskip("datasets")
    (folder / "set.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert "scripts are no longer supported" in refusal(
        "import", folder, "--hub", "--split", "train", *MAPPED
    )
    assert not (tmp_path / "ran").exists()


def test_bad_line_is_reported_with_row_and_reason(project, tmp_path):
    (tmp_path / "a.csv").write_text("prompt,answer\na,1\nb\n")
    message = refusal("import", tmp_path / "a.csv")
    assert "line 3: the header has 2 cells, this row 1" in message and "--quarantine" in message
    assert "1 tasks, 1 lines set aside" in said("import", tmp_path / "a.csv", "--quarantine")


def test_missing_column_is_reported_with_the_existing_ones(project, tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps(ROWS[0]))
    words = refusal("import", tmp_path / "a.jsonl", "--layout", "columns")
    assert "no column 'prompt'; found grade, question, result" in words


def test_duplicates_are_dropped_or_refused_as_requested(project, tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*ROWS, ROWS[1]]))
    assert "line 6: duplicate of line 2" in refusal(
        "import", tmp_path / "a.jsonl", "--duplicates", "refuse", *MAPPED
    )
    assert "5 tasks, 1 duplicates left out" in said(
        "import", tmp_path / "a.jsonl", "--duplicates", "drop", *MAPPED
    )


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_exported_taskset_is_imported_again_with_the_same_digest(project, tmp_path, format):
    said("generate", "tone", "--size", 30)
    digest = Taskset.objects.get(slug="tone").digest
    assert digest in said("export", "tone", tmp_path / f"a.{format}")
    said("import", tmp_path / f"a.{format}", "--slug", "again")
    assert Taskset.objects.get(slug="again").digest == digest
    assert "--force" in refusal("export", "tone", tmp_path / f"a.{format}")
    assert [path.name for path in tmp_path.iterdir()] == [f"a.{format}"]


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_redacted_export_removes_personal_data_and_reports_the_counts(project, tmp_path, format):
    rows = [
        TaskRow(
            [{"role": "user", "content": "Who is ada@mail.example?"}],
            {"value": "+49 30 1234567"},
            {"from": "x@y.example"},
        )
    ]
    store_taskset(Origin(project, "people", "", "test"), rows)
    file = tmp_path / f"a.{format}"
    assert "1 tasks, redacted: 2 e-mail addresses, 1 telephone numbers" in said(
        "export", "people", file, "--redact"
    )
    said("import", file, "--slug", "again")
    task = Taskset.objects.get(slug="again").tasks.get()
    assert (task.question, task.answer, task.meta) == (
        "Who is [e-mail address]?",
        {"value": "[telephone number]"},
        {"from": "[e-mail address]"},
    )


def test_invalid_export_is_refused_with_the_reason(project, tmp_path):
    said("generate", "tone", "--size", 3)
    assert "must end with .jsonl, .csv, .parquet" in refusal("export", "tone", tmp_path / "a.txt")
    assert "no taskset 'tune'" in refusal("export", "tune", tmp_path / "a.csv")
    assert "No such file" in refusal("export", "tone", tmp_path / "nowhere" / "a.csv")


def test_overlap_of_two_tasksets_is_reported_with_its_pairs(project, tmp_path):
    said("generate", "sort", "--size", 30, "--slug", "train")
    said("export", "train", tmp_path / "a.jsonl")
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    (tmp_path / "b.jsonl").write_text(
        "\n".join([*lines[:3], '{"prompt": "something else", "answer": 1}'])
    )
    said("import", tmp_path / "b.jsonl", "--slug", "test")
    message = said("overlap", "test", "train", "--pairs", tmp_path / "pairs.jsonl")
    assert "test: 3 of 4 tasks are in train exactly, 0 more nearly (75.0%)" in message
    pairs = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    assert {"checked": 0, "other": 0, "share": 1.0, "is_exact": True} in pairs
    assert "--threshold" in refusal("overlap", "test", "train", "--threshold", 0)


def test_corrected_file_is_stored_as_the_next_version_with_the_changes(project, tmp_path):
    file = tmp_path / "sums.jsonl"
    file.write_text(
        "".join(json.dumps({"prompt": f"{n}+1", "answer": n + 1}) + "\n" for n in range(3))
    )
    said("import", file)
    assert "nothing has changed: same tasks in the same order as 'sums'" in refusal(
        "import", file, "--version-of", "sums"
    )
    assert "or use --version-of" in refusal("import", file)
    file.write_text(
        "".join(json.dumps({"prompt": f"{n}+1", "answer": n + 1}) + "\n" for n in range(1, 5))
    )
    assert "taskset sums-v2: 4 tasks; version 2 of sums: 2 added, 1 removed" in said(
        "import", file, "--version-of", "sums"
    )
    assert "version 2 of sums, digest" in said("export", "sums-v2", tmp_path / "out.jsonl")
    assert "version 2 of sums" in said("list")
    assert Taskset.objects.get(slug="sums").size == 3


def test_version_of_a_missing_taskset_is_refused(project, tmp_path):
    file = tmp_path / "sums.jsonl"
    file.write_text(json.dumps({"prompt": "1+1", "answer": 2}) + "\n")
    assert (
        refusal("import", file, "--version-of", "none") == "--version-of: no taskset 'none' in lab"
    )
