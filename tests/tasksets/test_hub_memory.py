"""The process that reads a Hub data set has bounded memory, whatever the data unpacks to."""

import pyarrow as arrow
import pyarrow.parquet as pq
import pytest

from apps.accounts.confining import TOO_MUCH_MEMORY
from apps.tasksets.sources.hub import hub_rows


def test_a_data_set_that_unpacks_to_too_much_ends_by_its_limit_of_memory(tmp_path):
    """A file of a few kilobytes, whose one text of 32 MiB stands in 60 rows."""
    pytest.importorskip("datasets")
    text = arrow.array(["x" * (32 << 20)])
    rows = arrow.DictionaryArray.from_arrays(arrow.array([0] * 60), text)
    # Without its schema, the reader makes whole texts of the dictionary's.
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
