"""The process that reads a Hub data set uses limited memory, however large the unpacked data is."""

import pyarrow as arrow
import pyarrow.parquet as pq
import pytest

from apps.accounts.confining import TOO_MUCH_MEMORY
from apps.tasksets.sources.hub import hub_rows


def test_reading_a_dataset_that_unpacks_to_too_much_stops_at_the_memory_limit(tmp_path):
    """The file has a few kilobytes; its 60 rows all contain one text of 32 MiB."""
    pytest.importorskip("datasets")
    text = arrow.array(["x" * (32 << 20)])
    rows = arrow.DictionaryArray.from_arrays(arrow.array([0] * 60), text)
    # Without the stored schema, the reader expands the dictionary into complete texts.
    pq.write_table(
        arrow.table({"question": rows}),
        tmp_path / "train-00000-of-00001.parquet",
        store_schema=False,
        compression="zstd",
        dictionary_pagesize_limit=1 << 30,
    )
    with hub_rows(str(tmp_path), "", "train") as read:
        assert read.lines.read() == b""
        with pytest.raises(ValueError) as refusal:
            read.require_end()
    assert str(refusal.value) == TOO_MUCH_MEMORY
