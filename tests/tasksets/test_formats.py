"""Text formats as users have them: arrays, several encodings, compressed, zipped. Bombs and
truncated files are refused with one sentence."""

import bz2
import gzip
import io
import json
import lzma
import tarfile
import tracemalloc
import zipfile

import pyarrow as arrow
import pyarrow.parquet as pq
import pytest

from apps.tasksets.sources import open_source, streams
from apps.tasksets.sources.records import MAX_LINE_BYTES, BadLine, NotReadable, Record

ROWS = [{"prompt": f'{n} "x\\ [1, 2] {{}} é 好', "answer": {"value": [[n]]}} for n in range(4)]


def zstd(raw: bytes) -> bytes:
    return arrow.Codec("zstd").compress(raw, asbytes=True)


def packed_in_tar() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("train/1.json"))
    return packed.getvalue()


def zipped(*names: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr(name, "{}")
    return packed.getvalue()


PACKERS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
}
TEXTS = {
    "lines.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS),
    "lines.json": "".join(json.dumps(row) + "\n" for row in ROWS),
    "array.json": json.dumps(ROWS),
    "array.jsonl": json.dumps(ROWS, indent=2, ensure_ascii=False),
    "one array per line.jsonl": "".join(json.dumps([row]) + "\n" for row in ROWS),
    "rows over lines.json": "\n".join(
        json.dumps(row, indent=1, ensure_ascii=False) for row in ROWS
    ),
    "object.json": json.dumps({"version": "1", "data": ROWS}),
    "object over lines.json": json.dumps(
        {"of": [{"data": []}], "train": ROWS, "end": [{"a": {}}]}, indent=1
    ),
    "no name": json.dumps(ROWS),
}
ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32")


def written(path, raw: bytes):
    path.write_bytes(raw)
    return path


def read(path) -> list:
    return [
        record.fields if isinstance(record, Record) else record.reason
        for record in open_source(path)
    ]


@pytest.mark.parametrize("name", TEXTS)
def test_json_is_read_in_every_layout(tmp_path, name):
    assert read(written(tmp_path / name, TEXTS[name].encode())) == ROWS


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", ["lines.jsonl", "array.json"])
def test_text_is_read_in_every_unicode_encoding(tmp_path, name, encoding):
    assert read(written(tmp_path / name, TEXTS[name].encode(encoding))) == ROWS


def test_tab_separated_utf16_table_is_read(tmp_path):
    text = "prompt\tanswer\r\n2+2\t4\r\n".encode("utf-16")
    assert read(written(tmp_path / "a.tsv", text)) == [{"prompt": "2+2", "answer": "4"}]


@pytest.mark.parametrize("packed", PACKERS)
def test_compressed_file_is_read_as_its_content(tmp_path, packed):
    pack = PACKERS[packed]
    pq.write_table(arrow.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    files = {
        "a.jsonl": TEXTS["lines.jsonl"].encode(),
        "b.json": TEXTS["array.json"].encode("utf-16"),
        "c.parquet": (tmp_path / "a.parquet").read_bytes(),
    }
    for name, raw in files.items():
        source = open_source(written(tmp_path / (name + packed), pack(raw)))
        assert [record.fields for record in source] == ROWS
        assert source.at == source.size


def test_compressed_file_is_recognised_without_a_file_extension(tmp_path):
    assert read(written(tmp_path / "data", zstd(TEXTS["array.json"].encode()))) == ROWS


def test_consecutive_zstd_frames_are_read_as_one_file(tmp_path):
    both = zstd(json.dumps(ROWS[0]).encode() + b"\n") + zstd(json.dumps(ROWS[1]).encode() + b"\n")
    assert read(written(tmp_path / "a.jsonl.zst", both)) == ROWS[:2]


def test_zip_file_is_read_as_a_folder(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("data/a.jsonl", json.dumps(ROWS[0]))
        archive.writestr("data/b.jsonl.gz", gzip.compress(json.dumps(ROWS[1]).encode()))
        archive.writestr("data/README.md", "no data")
    assert read(tmp_path / "a.zip") == ROWS[:2]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[1, "x", {"a": 1}]', ["not a JSON object", "not a JSON object", {"a": 1}]),
        ('[{"a": 1}, {"b": 2', [{"a": 1}, "Expecting ',' delimiter: line 1 column 8 (char 7)"]),
        ('[{"a": 1}, {"a": NaN}, {"c": 3}]', [{"a": 1}, "NaN is not a number", {"c": 3}]),
        ('[{"a": 1}] trailing', [{"a": 1}, "Expecting value"]),
        ("[]", []),
    ],
)
def test_bad_row_of_an_array_is_reported_and_the_next_row_is_read(tmp_path, text, found):
    records = list(open_source(written(tmp_path / "a.json", text.encode())))
    assert len(records) == len(found)
    for number, (record, expected) in enumerate(zip(records, found, strict=True), start=1):
        assert record.number == number
        if isinstance(expected, str):
            assert isinstance(record, BadLine)
            assert record.reason.startswith(expected)
        else:
            assert record.fields == expected


@pytest.mark.parametrize(
    ("name", "raw", "reason"),
    [
        ("a.json", b'[{"a": 1},', "truncated: its list of rows does not end"),
        (
            "a.json",
            b'{"train": [{"a": 1}], "test": [{"b": 1}]}',
            "several lists of rows, train and test",
        ),
        (
            "a.jsonl",
            '{"a": 1}'.encode("utf-16")[:-1],
            "the file starts as UTF-16 but is not valid UTF-16",
        ),
        ("a.jsonl.gz", gzip.compress(b'{"a": 1}\n', mtime=0)[:-9], "not a readable gzip file"),
        ("a.jsonl.bz2", bz2.compress(b'{"a": 1}\n')[:-9], "not a readable bzip2 file"),
        ("a.jsonl.xz", lzma.compress(b'{"a": 1}\n')[:-9], "not a readable xz file"),
        ("a.jsonl.zst", zstd(b'{"a": 1}\n')[:-3], "not a readable zstd file"),
        ("a.zip", b"PK\x03\x04 and nothing else", "not a readable zip file"),
        (
            "a.tar.gz",
            gzip.compress(packed_in_tar(), mtime=0),
            "a tar archive is not read; pack the folder",
        ),
        ("a.xlsx", zipped("[Content_Types].xml", "xl/workbook.xml"), "file of Excel .* as CSV"),
        ("a.zip", zipped("readme.md"), "contains no data file"),
        ("a.csv", b"prompt,answer\rq,4\r", "carriage return outside of quotes; end lines with LF"),
    ],
)
def test_truncated_or_ambiguous_file_is_refused_with_a_reason(tmp_path, name, raw, reason):
    with pytest.raises(NotReadable, match=reason):
        read(written(tmp_path / name, raw))


@pytest.mark.parametrize("packed", [".gz", ".bz2", ".xz", ".zst"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.parquet"])
def test_decompression_bomb_is_refused_with_one_sentence(tmp_path, monkeypatch, name, packed):
    monkeypatch.setattr(streams, "MAX_UNPACKED_BYTES", 3 * MAX_LINE_BYTES)
    begun = {"a.json": b"[", "a.csv": b"a,b\n", "a.parquet": b"PAR1"}.get(name, b"")
    path = written(tmp_path / (name + packed), PACKERS[packed](begun + b" " * (8 * MAX_LINE_BYTES)))
    with pytest.raises(
        NotReadable,
        match=r"the unpacked file is larger than 0\.003\S* GB; split it into smaller files$",
    ):
        read(path)


def test_reading_a_long_array_uses_limited_memory(tmp_path):
    row = b'{"a": "' + b"x" * 10_000 + b'"},'
    path = written(
        tmp_path / "a.json", b"[" + row * 2_000 + b'{"a": "' + b"y" * (20 * MAX_LINE_BYTES) + b'"}]'
    )
    tracemalloc.start()
    last = None
    for last in open_source(path):  # noqa: B007 - the last one is looked at
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "longer than" in last.reason
    assert peak < 12 * MAX_LINE_BYTES


SHORT = arrow.float32()
COLUMNS = {
    "a float of 32 bits": (arrow.array([0.1], SHORT), 0.1),
    "such floats in a list": (arrow.array([[0.1, 2.5]], arrow.list_(SHORT)), [0.1, 2.5]),
    "one in an object": (
        arrow.array([{"a": 0.1, "b": "x"}], arrow.struct({"a": SHORT, "b": arrow.string()})),
        {"a": 0.1, "b": "x"},
    ),
    "a missing float": (arrow.array([None], SHORT), None),
    "a map": (
        arrow.array([[("a", 1), ("b", 2)]], arrow.map_(arrow.string(), arrow.int64())),
        {"a": 1, "b": 2},
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_parquet_column_is_read_as_the_values_that_were_written(tmp_path, name):
    column, expected = COLUMNS[name]
    pq.write_table(arrow.table({"prompt": ["q"], "answer": column}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == [{"prompt": "q", "answer": expected}]


def test_a_map_with_two_equal_keys_makes_its_row_bad(tmp_path):
    pairs = arrow.map_(arrow.string(), arrow.int64())
    column = arrow.array([[("a", 1), ("a", 2)], [("a", 1)]], pairs)
    pq.write_table(arrow.table({"answer": column}), tmp_path / "a.parquet")
    found = read(tmp_path / "a.parquet")
    assert found == ["a map has two equal keys", {"answer": {"a": 1}}]


def test_task_of_grids_over_several_lines_is_one_row(tmp_path):
    pairs = [{"input": [[1]], "output": [[2]]}]
    task = {"train": pairs, "test": pairs}
    assert read(written(tmp_path / "a.json", json.dumps(task, indent=2).encode())) == [task]
