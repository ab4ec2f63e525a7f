"""The rows of a Hub data set as JSON lines: `python -m workers.hub_rows NAME --split train`.

Rows are streamed, nothing is kept on disk, and memory is limited as for uploaded files. Relies on
`datasets`: get_dataset_split_names, load_dataset, IterableDataset.decode. Code of a data set is
never run: since version 4 `datasets` refuses one that comes with any.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from apps.accounts.confining import TOO_MUCH_MEMORY, confine
from apps.tasksets.sources.records import picture_address, without_nulls
from workers.processes import QUIET


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("--config", default="")
    parser.add_argument("--split", default="")
    options = parser.parse_args()
    try:
        for row in read_hub_rows(options.name, options.config or None, options.split):
            sys.stdout.write(json.dumps(row, ensure_ascii=True, default=_plain) + "\n")
        sys.stdout.flush()
    except MemoryError:
        print(TOO_MUCH_MEMORY, file=sys.stderr)
        return 1
    # any error of the library or the network is printed in one line, for the parent command
    except Exception as error:
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


def read_hub_rows(name: str, config: str | None, split: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of one split; without a name the only one.

    Pictures come as data addresses; sounds are left out by `_plain`. The library gives each object
    of a column the fields of all its objects, so null fields are left out.
    """
    import datasets

    confine(cpu_s=None)  # a download may take hours, so only its memory is limited
    splits = datasets.get_dataset_split_names(name, config)
    if split not in splits and (split or len(splits) > 1):
        raise ValueError(f"--split: choose one of {', '.join(splits)}")
    rows = datasets.load_dataset(name, config, split=split or splits[0], streaming=True)
    for row in rows.decode(False):
        yield {column: without_nulls(value) for column, value in row.items()}


def _plain(value: object) -> object:
    return picture_address(value) if isinstance(value, bytes) else str(value)


if __name__ == "__main__":
    import os

    os.environ.update({name: value for name, value in QUIET.items() if name != "HF_HUB_OFFLINE"})
    sys.exit(main())
