"""The rows of a data set of the Hub as JSON lines: `python -m workers.hub_rows NAME --split train`, streamed, nothing kept on disk.

Relies on `datasets`: get_dataset_split_names, load_dataset, IterableDataset.decode. Code of a data set is never run:
since its version 4 `datasets` refuses one that comes with any.
"""

import argparse
import json
import sys
from collections.abc import Iterator

from workers.processes import QUIET


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("--config", default="")
    parser.add_argument("--split", default="")
    asked = parser.parse_args()
    try:
        for row in rows_of(asked.name, asked.config or None, asked.split):
            sys.stdout.write(json.dumps(row, ensure_ascii=True, default=_plain) + "\n")
        sys.stdout.flush()
    except Exception as error:  # whatever the library or the network raises is told in one line, for the command that started us
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


def rows_of(name: str, config: str | None, split: str) -> Iterator[dict]:
    """The rows of one split; without a name the only one. Pictures and sounds come undecoded, and are left out by `_plain`."""
    import datasets

    splits = datasets.get_dataset_split_names(name, config)
    if split not in splits and (split or len(splits) > 1):
        raise ValueError(f"--split: say which: {', '.join(splits)}")
    return iter(datasets.load_dataset(name, config, split=split or splits[0], streaming=True).decode(False))


def _plain(value: object) -> object:
    return None if isinstance(value, bytes) else str(value)


if __name__ == "__main__":
    import os

    os.environ.update({name: value for name, value in QUIET.items() if name != "HF_HUB_OFFLINE"})
    sys.exit(main())
