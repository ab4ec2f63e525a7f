"""Write the rows of a file to standard output, in bounded memory.

`python -m apps.tasksets.sources.apart_child FILE`
"""

import argparse
import os
import sys
from pathlib import Path

from apps.accounts.confining import TOO_MUCH_MEMORY, TooSlow, confine
from apps.tasksets.sources import open_source
from apps.tasksets.sources.apart import encode_record
from apps.tasksets.sources.records import NotReadable

REFUSED = 2  # exit status; the reason is on standard error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--format", default="auto")
    parser.add_argument("--split", default="")
    parser.add_argument("--cpu-s", type=float, required=True)
    options = parser.parse_args()
    confine(cpu_s=options.cpu_s)
    try:
        source = open_source(options.file, options.format, options.split)
        for record in source:
            sys.stdout.buffer.write(encode_record(record, source.at / max(source.size, 1)))
        sys.stdout.buffer.flush()
    except (NotReadable, TooSlow) as error:
        print(error, file=sys.stderr)
        return REFUSED
    except MemoryError:
        print(TOO_MUCH_MEMORY, file=sys.stderr)
        return REFUSED
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # enough was read
            os._exit(0)
        print(f"the file cannot be read: {error.strerror}", file=sys.stderr)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
