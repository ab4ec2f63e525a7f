"""Each format gives the same tasks row by row; unreadable rows are reported and do not stop the
reader.
"""

import io
import json
import os
import random
import zipfile
from datetime import date
from decimal import Decimal

import pyarrow as arrow
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from apps.tasksets.reading import Columns, read_tasks
from apps.tasksets.rows import TaskRow
from apps.tasksets.sources import guess_format, open_source
from apps.tasksets.sources.archive import unpack_archive
from apps.tasksets.sources.folder import list_splits
from apps.tasksets.sources.jsonl import iterate_records
from apps.tasksets.sources.records import MAX_LINE_BYTES, BadLine, NotReadable, Record
from apps.tasksets.sources.tables import ROWS_AT_ONCE

ROWS = [{"prompt": f"{n}+1", "answer": str(n + 1)} for n in range(3)]
TASKS = [TaskRow([{"role": "user", "content": f"{n}+1"}], {"value": str(n + 1)}) for n in range(3)]


def as_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def as_csv(path, rows):
    path.write_text(
        "\n".join(
            ",".join(row.values()) for row in [dict(zip(rows[0], rows[0], strict=True)), *rows]
        )
    )


def as_parquet(path, rows):
    pq.write_table(arrow.Table.from_pylist(rows), path, row_group_size=2)


def as_arrow(path, rows):
    feather.write_feather(arrow.Table.from_pylist(rows), str(path))


def as_arrow_stream(path, rows):
    table = arrow.Table.from_pylist(rows)
    with path.open("wb") as stream, arrow.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


WRITERS = {
    "jsonl": as_jsonl,
    "csv": as_csv,
    "parquet": as_parquet,
    "arrow": as_arrow,
    "stream": as_arrow_stream,
}


def records(path, **how):
    return list(open_source(path, **how))


def csv_of(tmp_path, text, name="a.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return records(path)


def fields(found):
    return [record.fields if isinstance(record, Record) else record.reason for record in found]


@pytest.mark.parametrize("kind", WRITERS)
def test_equal_rows_give_equal_tasks_in_every_format(tmp_path, kind):
    path = tmp_path / f"a.{'arrow' if kind == 'stream' else kind}"
    WRITERS[kind](path, ROWS)
    source = open_source(path)
    assert list(read_tasks(source, Columns())) == TASKS
    assert source.at == source.size
    assert [type(row) for row in source] == [Record] * 3  # the source can be read again


@pytest.mark.parametrize("kind", ["parquet", "arrow", "stream"])
def test_binary_format_is_recognised_without_a_file_extension(tmp_path, kind):
    WRITERS[kind](tmp_path / "data", ROWS)
    assert guess_format(tmp_path / "data") == ("parquet" if kind == "parquet" else "arrow")


@pytest.mark.parametrize(
    ("name", "format"), [("a.csv", "csv"), ("a.TSV", "csv"), ("a.ndjson", "jsonl"), ("a", "jsonl")]
)
def test_text_formats_are_recognised_by_file_name(tmp_path, name, format):
    (tmp_path / name).write_text("{}")
    assert guess_format(tmp_path / name) == format


def test_columns_are_mapped_and_the_answer_uses_the_configured_key(tmp_path):
    as_csv(
        tmp_path / "a.csv", [{"q": "2+2", "a": "4", "field": "math", "level": "1", "from": "book"}]
    )
    columns = Columns(
        "q", "a", domain="field", answer_key="number", more_meta=("level", "from", "nowhere")
    )
    (task,) = read_tasks(open_source(tmp_path / "a.csv"), columns)
    assert (task.answer, task.domain, task.meta) == (
        {"number": "4"},
        "math",
        {"level": "1", "from": "book"},
    )


# -- CSV


@pytest.mark.parametrize("separator", ",;\t|")
def test_csv_separator_is_detected_from_the_header(tmp_path, separator):
    found = csv_of(tmp_path, f"a{separator}b\n1{separator}2\n")
    assert fields(found) == [{"a": "1", "b": "2"}]


def test_quoted_cells_may_contain_line_breaks_and_rows_are_numbered_by_their_first_line(tmp_path):
    found = csv_of(tmp_path, '\ufeffprompt,answer\r\n"one\ntwo, ""three""",1\r\n\r\nfour,\r\n')
    assert [record.number for record in found] == [2, 5]
    assert fields(found) == [
        {"prompt": 'one\ntwo, "three"', "answer": "1"},
        {"prompt": "four", "answer": None},
    ]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"only one", "the header has 2 cells, this row 1"),
        (b"a,b,c", "this row 3"),
        (b"\xff,b", "not UTF-8"),
        (b"a\x00,b", "NUL"),
        (b'"a"b,c', "expected after"),
        (b"a," + b"b" * (MAX_LINE_BYTES + 10), "longer than"),
        (b"a," + b"b" * MAX_LINE_BYTES, "longer than"),
    ],
)
def test_bad_csv_row_is_reported_and_the_next_is_read(tmp_path, row, reason):
    good, bad, last = csv_of(tmp_path, b"prompt,answer\na,1\n" + row + b"\nb,2\n")
    assert isinstance(good, Record) and isinstance(bad, BadLine) and isinstance(last, Record)
    assert bad.number == 3 and reason in bad.reason


def test_lines_swallowed_by_an_open_quote_are_reported(tmp_path):
    (bad,) = csv_of(tmp_path, 'prompt,answer\n"a,1\nb,2\nc,3\n')
    assert "lines 2 to 4 are this one row" in bad.reason


def test_an_open_quote_swallows_a_bounded_number_of_lines(tmp_path):
    rows = "".join(f"{'x' * 1000},{n}\n" for n in range(3000))
    found = csv_of(tmp_path, f'prompt,answer\n"open,1\n{rows}')
    assert isinstance(found[0], BadLine) and len(found) > 1500


@pytest.mark.parametrize(
    "text", ["", ",,\n1,2,3\n", "a,a\n1,2\n", b"\xff\xfea\x00,\x00b\x00\n", "a,a.json\n1,2\n"]
)
def test_csv_without_a_header_is_not_readable(tmp_path, text):
    with pytest.raises(NotReadable):
        csv_of(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("sep=;\nprompt;answer\na,b;1\n", {"prompt": "a,b", "answer": "1"}),
        ('"sep=,"\r\nprompt,answer\r\n"a;b",1\r\n', {"prompt": "a;b", "answer": "1"}),
        (",prompt,answer\n0,a,1\n", {"Unnamed: 0": "0", "prompt": "a", "answer": "1"}),
        ("prompt,answer,\na,1,\n", {"prompt": "a", "answer": "1", "Unnamed: 2": None}),
        ('prompt, answer\na, "b, c"\n', {"prompt": "a", "answer": "b, c"}),
        (" prompt ,answer\n a,1\n", {"prompt": " a", "answer": "1"}),
    ],
)
def test_csv_of_spreadsheets_and_pandas_is_read_with_its_column_names(tmp_path, text, found):
    assert fields(csv_of(tmp_path, text)) == [found]


def test_line_that_declares_the_separator_counts_as_a_line(tmp_path):
    [bad] = csv_of(tmp_path, "sep=;\na;b\n1;2;3\n")
    assert (bad.number, bad.reason) == (3, "the header has 2 cells, this row 3")


def test_column_with_json_suffix_is_parsed_as_json(tmp_path):
    text = 'prompt,answer.json\na,"{""value"": 4}"\nb,{\nc,\nd,"{""value"": NaN}"\n'
    first, broken, empty, not_a_number = fields(csv_of(tmp_path, text))
    assert first == {"prompt": "a", "answer": {"value": 4}} and empty == {
        "prompt": "c",
        "answer": None,
    }
    assert "answer.json: " in broken and "NaN" in not_a_number


# -- tables


@pytest.mark.parametrize("kind", ["parquet", "arrow", "stream"])
def test_non_json_values_are_converted_to_text_and_nan_refuses_its_row(tmp_path, kind):
    plain = {"a": 1.5, "when": date(2026, 1, 2), "cost": Decimal("1.50"), "raw": b"x"}
    rows = [plain, {"a": float("nan")}, {"a": float("inf")}, {"a": 2.0}]
    WRITERS[kind](tmp_path / "a.x", rows)
    first, nan, infinite, last = fields(records(tmp_path / "a.x"))
    assert first == {"a": 1.5, "when": "2026-01-02", "cost": "1.50", "raw": None}
    assert "NaN" in nan and "Infinity" in infinite and last["a"] == 2.0


def test_invalid_utf8_makes_only_its_own_row_bad(tmp_path):
    broken = arrow.Array.from_buffers(
        arrow.utf8(),
        2,
        [None, arrow.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), arrow.py_buffer(b"a\xff")],
    )
    pq.write_table(arrow.table({"prompt": broken}), tmp_path / "a.parquet")
    assert fields(records(tmp_path / "a.parquet")) == [{"prompt": "a"}, "not UTF-8"]


def test_too_long_row_is_reported_as_a_bad_line(tmp_path):
    as_parquet(tmp_path / "a.parquet", [{"a": "x"}, {"a": "x" * MAX_LINE_BYTES}, {"a": "y"}])
    assert [type(row) for row in records(tmp_path / "a.parquet")] == [Record, BadLine, Record]


def test_rows_are_numbered_across_batches(tmp_path):
    as_parquet(tmp_path / "a.parquet", [{"a": n} for n in range(2 * ROWS_AT_ONCE + 7)])
    found = records(tmp_path / "a.parquet")
    assert (
        [row.number for row in found]
        == [row.fields["a"] + 1 for row in found]
        == list(range(1, 2 * ROWS_AT_ONCE + 8))
    )


@pytest.mark.parametrize("kind", ["parquet", "arrow", "stream"])
@pytest.mark.parametrize("keep", [10, 0.6])
def test_a_damaged_table_is_not_readable(tmp_path, kind, keep):
    path = tmp_path / "a.x"
    WRITERS[kind](path, [{"prompt": f"{n}" * 50} for n in range(5000)])
    whole = path.read_bytes()
    path.write_bytes(whole[: keep if keep > 1 else int(len(whole) * keep)])
    with pytest.raises(NotReadable):
        records(path)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "stream"])
@pytest.mark.parametrize("seed", range(5))
def test_file_with_corrupted_bytes_is_read_or_refused(tmp_path, kind, seed):
    draw = random.Random(seed)
    path = tmp_path / "a.x"
    WRITERS[kind](
        path, [{"prompt": f"{n}" * 3, "answer": {"value": n, "all": [n, 2]}} for n in range(40)]
    )
    whole = path.read_bytes()
    for _ in range(100):
        spoilt = bytearray(whole)
        for _ in range(draw.randint(1, 6)):
            spoilt[draw.randrange(6, len(spoilt))] = draw.randrange(256)
        path.write_bytes(spoilt)
        try:
            assert {
                type(row)
                for row in records(path, format="parquet" if kind == "parquet" else "arrow")
            } <= {Record, BadLine}
        except NotReadable as error:
            assert (
                "not a readable" in str(error)
                or "cannot be read" in str(error)
                or "several columns" in str(error)
            )


def test_two_columns_with_the_same_name_are_refused(tmp_path):
    pq.write_table(
        arrow.Table.from_arrays([arrow.array([1]), arrow.array([2])], ["a", "a"]),
        tmp_path / "a.parquet",
    )
    with pytest.raises(NotReadable, match="several columns are named 'a'"):
        records(tmp_path / "a.parquet")


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_file_that_does_not_have_the_given_format_is_not_readable(tmp_path, format):
    as_jsonl(tmp_path / "a.jsonl", ROWS)
    with pytest.raises(NotReadable, match="not a readable"):
        records(tmp_path / "a.jsonl", format=format)


# -- folders


@pytest.fixture
def saved(tmp_path):
    datasets = pytest.importorskip("datasets")
    one = datasets.Dataset.from_list(ROWS)
    datasets.DatasetDict(train=one, test=one.select([1])).save_to_disk(
        tmp_path / "both", num_shards={"train": 2, "test": 1}
    )
    return tmp_path / "both"


def test_a_saved_data_set_is_read_with_all_its_shards(saved):
    assert list(read_tasks(open_source(saved / "train"), Columns())) == TASKS
    assert list(read_tasks(open_source(saved, split="test"), Columns())) == TASKS[1:2]


def test_saved_dataset_dictionary_requires_a_split(saved):
    with pytest.raises(NotReadable, match="choose a split: train, test"):
        open_source(saved)
    with pytest.raises(NotReadable, match="do not name one"):
        open_source(saved / "train", split="train")


def test_data_files_of_a_split_are_read_in_order(tmp_path):
    (tmp_path / "data").mkdir()
    as_parquet(tmp_path / "data" / "train-00000-of-00002.parquet", ROWS[:2])
    as_parquet(tmp_path / "data" / "train-00001-of-00002.parquet", ROWS[2:])
    as_parquet(tmp_path / "data" / "test-00000-of-00001.parquet", ROWS[:1])
    found = records(tmp_path, split="train")
    assert [(row.number, row.fields) for row in found] == list(enumerate(ROWS, start=1))
    with pytest.raises(NotReadable, match="choose a split: test, train"):
        open_source(tmp_path)
    with pytest.raises(NotReadable, match="'dev'"):
        open_source(tmp_path, split="dev")


def test_bad_row_of_a_folder_is_reported_with_its_file_and_line(tmp_path):
    as_jsonl(tmp_path / "a.jsonl", ROWS)
    (tmp_path / "b.jsonl").write_text('{"prompt": "x", "answer": 1}\noops\n')
    bad = records(tmp_path)[-1]
    assert bad.number == 5 and bad.reason.startswith("b.jsonl, line 2: ")


def test_a_folder_of_several_formats_or_none_is_refused(tmp_path):
    with pytest.raises(NotReadable, match="no data file"):
        open_source(tmp_path)
    as_jsonl(tmp_path / "a.jsonl", ROWS)
    as_csv(tmp_path / "a.csv", ROWS)
    with pytest.raises(NotReadable, match="csv and jsonl"):
        open_source(tmp_path)
    assert len(records(tmp_path, format="csv")) == 3


LEADS_OUT = [
    "..",
    "../x.arrow",
    ".",
    "sub/x.arrow",
    "link.arrow",
    "sub",
    "\uff0e\uff0e",
    "/etc/passwd",
    "x\0",
    "",
    3,
    None,
]


@pytest.mark.parametrize("name", LEADS_OUT, ids=repr)
@pytest.mark.parametrize("listed", ["state.json", "dataset_dict.json"])
def test_saved_dataset_cannot_read_files_outside_its_folder(tmp_path, listed, name):
    as_arrow_stream(tmp_path / "x.arrow", ROWS)
    saved = tmp_path / "saved"
    (saved / "sub").mkdir(parents=True)
    as_arrow_stream(saved / "sub" / "x.arrow", ROWS)
    (saved / "link.arrow").symlink_to(tmp_path / "x.arrow")
    one = {
        "state.json": {"_data_files": [{"filename": name}]},
        "dataset_dict.json": {"splits": [name]},
    }
    (saved / listed).write_text(json.dumps(one[listed]))
    with pytest.raises(NotReadable):
        open_source(saved)


@pytest.mark.parametrize("state", ["{", "[]", '{"_data_files": []}', '{"_data_files": [{}]}'])
def test_dataset_state_without_files_is_refused(tmp_path, state):
    (tmp_path / "state.json").write_text(state)
    with pytest.raises(NotReadable):
        open_source(tmp_path)


@pytest.mark.parametrize("is_hard", [False, True])
def test_data_file_linked_from_outside_the_folder_is_refused(tmp_path, is_hard):
    as_jsonl(tmp_path / "theirs.jsonl", ROWS)
    (tmp_path / "in").mkdir()
    link = os.link if is_hard else os.symlink
    link(tmp_path / "theirs.jsonl", tmp_path / "in" / "a.jsonl")
    with pytest.raises(NotReadable, match=r"a\.jsonl"):
        open_source(tmp_path / "in")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a.jsonl", "A.jsonl"], "twice"),
        (["a/b.jsonl", "a/b.jsonl"], "twice"),
        (["../a.jsonl"], "dots only"),
        (["C:/a.jsonl"], "absolute"),
        (["a\uff0f..\uff0f..\uff0fb.jsonl"], "dots only"),
        (["link.jsonl"], "link"),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_zip_file_with_hostile_names_is_refused(tmp_path, names, words):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in names:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o120777 if name == "link.jsonl" else 0o100644) << 16
            archive.writestr(entry, b"{}")
    with pytest.raises(NotReadable, match=words):
        unpack_archive(tmp_path / "a.zip", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_split_of_a_single_file_is_refused(tmp_path):
    as_jsonl(tmp_path / "a.jsonl", ROWS)
    with pytest.raises(NotReadable, match="this is a file"):
        open_source(tmp_path / "a.jsonl", split="train")


def test_arrow_file_with_one_large_batch_is_read_completely(tmp_path):
    as_arrow(tmp_path / "a.arrow", [{"a": n} for n in range(ROWS_AT_ONCE * 3)])
    assert len(records(tmp_path / "a.arrow")) == ROWS_AT_ONCE * 3


def test_records_are_read_from_a_stream_without_a_file():
    assert fields(iterate_records(io.BytesIO(b'{"a": 1}\n\n{"a": 2}'))) == [{"a": 1}, {"a": 2}]


# -- folders as the Hub has them


def sharded(folder, *names: str):
    for name in names:
        path = folder / f"{name}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        as_parquet(path, [{"prompt": name, "answer": "1"}])


def test_splits_whose_names_begin_alike_are_not_read_as_one(tmp_path):
    sharded(tmp_path, "data/train_prefs", "data/train_sft", "data/test_sft")
    assert list_splits(tmp_path) == ["test_sft", "train_prefs", "train_sft"]
    assert [row.fields["prompt"] for row in records(tmp_path, split="train_sft")] == [
        "data/train_sft"
    ]
    assert [row.fields["prompt"] for row in records(tmp_path, split="test")] == ["data/test_sft"]
    with pytest.raises(NotReadable, match="choose a split: train_prefs, train_sft"):
        open_source(tmp_path, split="train")


def test_configurations_of_a_data_set_are_not_read_as_one(tmp_path):
    sharded(tmp_path, "main/train", "main/test", "socratic/train")
    assert list_splits(tmp_path) == ["main/train", "socratic/train", "test"]
    assert [row.fields["prompt"] for row in records(tmp_path, split="main/train")] == ["main/train"]
    with pytest.raises(NotReadable, match="choose a split: main/train, socratic/train"):
        open_source(tmp_path, split="train")


def test_numbered_files_of_the_hubs_parquet_branch_are_of_their_folders_split(tmp_path):
    for folder in ("main/train", "socratic/train"):
        (tmp_path / folder).mkdir(parents=True)
        as_parquet(tmp_path / folder / "0000.parquet", ROWS)
    assert list_splits(tmp_path) == ["main/train", "socratic/train"]


def test_copies_that_programs_keep_for_themselves_are_not_read(tmp_path):
    as_jsonl(tmp_path / "train.jsonl", ROWS)
    for hidden in (".ipynb_checkpoints", "__MACOSX"):
        (tmp_path / hidden).mkdir()
        as_jsonl(tmp_path / hidden / "train-checkpoint.jsonl", ROWS)
    assert len(records(tmp_path)) == len(ROWS)


def test_objects_of_a_table_have_no_fields_of_other_rows(tmp_path):
    rows = [{"call": {"arguments": {"a": 1}}, "none": None}, {"call": {"arguments": {"b": [None]}}}]
    as_parquet(tmp_path / "calls.parquet", rows)
    found = [row.fields for row in records(tmp_path / "calls.parquet")]
    assert found == [rows[0], {**rows[1], "none": None}]
