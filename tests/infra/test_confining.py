"""Files that people send are decoded with limited memory, and never in a web process."""

import io
import signal
import subprocess
import sys
import zipfile

import pyarrow as arrow
import pyarrow.parquet as pq
import pytest
from PIL import Image

from apps.accounts import confining
from apps.tasksets import picture_process
from apps.tasksets.pictures import BadPicture, encode_picture
from apps.tasksets.sources import open_source
from apps.tasksets.sources.apart import records_of_file
from apps.tasksets.sources.archive import unpack_archive
from apps.tasksets.sources.records import NotReadable

GREEDY = """
from apps.accounts.confining import confine
confine(64 << 20)
kept = bytearray(32 << 20)
try:
    bytearray(64 << 20)
except MemoryError:
    print("refused")
"""

BUSY = """
from collections import deque
from itertools import repeat
from apps.accounts import confining
confining.KILLED_AFTER_S = 1
confining.confine(cpu_s=0.2)

def work():  # a function, so that a signal between two rounds of the loop is caught as well
    {work}

try:
    work()
except ValueError:
    print("taken for a bad line")
except confining.TooSlow as slow:
    print(slow)
"""


def png(size: tuple[int, int] = (8, 8)) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", size, "red").save(stream, "PNG")
    return stream.getvalue()


def repeated(text: str, rows: int) -> arrow.Array:
    """Return an array with one text in every row, which a file stores once."""
    return arrow.DictionaryArray.from_arrays(
        arrow.array([0] * rows, arrow.int32()), arrow.array([text])
    )


def parquet(texts: arrow.Array) -> io.BytesIO:
    stream = io.BytesIO()
    pq.write_table(arrow.table({"prompt": texts}), stream, compression="zstd", store_schema=False)
    stream.seek(0)
    return stream


def written(folder, stream: io.BytesIO):
    path = folder / "a.parquet"
    path.write_bytes(stream.getvalue())
    return path


def test_confined_process_cannot_exceed_its_memory_limit():
    done = subprocess.run(
        [sys.executable, "-c", GREEDY], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "refused\n", done.stderr


@pytest.mark.parametrize(
    ("work", "said", "status"),
    [
        pytest.param("while True: str(1)", "more than 0.2 seconds of processor", 0, id="python"),
        pytest.param("deque(repeat(0), maxlen=0)", "", -signal.SIGKILL, id="native code"),
    ],
)
def test_confined_process_cannot_exceed_its_processor_time_limit(work, said, status):
    code = BUSY.format(work=work)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert said in done.stdout and done.returncode == status, done.stderr
    assert bool(said) == bool(done.stdout)


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        ("os.abort()", confining.TOO_MUCH_MEMORY),  # as C++ does that gets no memory
        ("os.kill(os.getpid(), 9)", confining.TOO_MUCH),
        ("sys.exit(1)", "row 3 has no column 'prompt'"),
    ],
)
def test_end_of_a_confined_process_is_reported_with_its_reason(work, reason):
    code = f"import os, sys; print(\"row 3 has no column 'prompt'\", file=sys.stderr); {work}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    last = done.stderr.strip().splitlines()[-1]
    assert confining.why_it_ended(done.returncode, last) == reason


def test_web_process_does_not_decode_tables_or_archives_itself(monkeypatch, tmp_path):
    monkeypatch.setattr(confining, "_serves", True)
    for decode in (
        lambda: open_source(tmp_path),
        lambda: unpack_archive(tmp_path / "a.zip", tmp_path / "a"),
    ):
        with pytest.raises(confining.DecodesNothing):
            decode()
    path = written(tmp_path, parquet(arrow.array(["a"])))
    assert [record.fields for record in records_of_file(path)] == [{"prompt": "a"}]


@pytest.mark.slow
def test_parquet_file_that_needs_too_much_memory_is_rejected_with_the_limit(tmp_path):
    bomb = parquet(repeated("x" * 20_000_000, 200))
    assert len(bomb.getvalue()) < 10_000
    with pytest.raises(NotReadable, match="more than 1024 MB of memory"):
        list(records_of_file(written(tmp_path, bomb)))


def test_unreadable_file_is_rejected_with_the_message_of_the_child_process(tmp_path):
    with pytest.raises(NotReadable, match="not a readable Parquet file"):
        list(records_of_file(written(tmp_path, io.BytesIO(b"PAR1 and no more"))))


def test_zip_file_unpacked_by_a_child_process_leaves_no_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.jsonl", '{"prompt": "a"}\n' * 3)
    rows = records_of_file(tmp_path / "a.zip")
    assert next(rows).fields == {"prompt": "a"}
    rows.close()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_pictures_are_decoded_by_a_child_process_that_is_restarted_after_it_dies(monkeypatch):
    first = encode_picture(png())
    decoder = picture_process._decoder
    assert (first.width, first.height) == (8, 8) and decoder.child.poll() is None
    with pytest.raises(BadPicture, match="not a supported image"):
        encode_picture(b"no picture")
    died = decoder.child
    monkeypatch.setattr(picture_process, "MAX_SECONDS", 0)
    with pytest.raises(BadPicture, match="too much memory or time"):
        while True:  # the child is killed during or before its response
            encode_picture(png((2000, 2000)))
    monkeypatch.undo()
    assert encode_picture(png()) == first and decoder.child is not died


def test_table_with_too_many_columns_is_rejected_before_its_rows_are_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(",".join(f"c{n}" for n in range(50_000)) + "\n" + "," * 49_999 + "\n")
    with pytest.raises(NotReadable, match="50,000 columns; the limit is 2,000"):
        list(open_source(path))
