"""Rows of the Parquet file on standard input as JSON lines, in bounded memory: `python -m apps.feedback.parquet_child`."""

import os
import sys

from apps.accounts.confining import TOO_MUCH_MEMORY, TooSlow, confine
from apps.feedback.parquet import NotParquet, lines_of

MOST_CPU_S = 300
REFUSED = 2  # exit status; the reason is on standard error


def main() -> int:
    confine(cpu_s=MOST_CPU_S)
    try:
        with os.fdopen(0, "rb") as source:
            for line in lines_of(source):
                sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    except (NotParquet, TooSlow) as error:
        print(error, file=sys.stderr)
        return REFUSED
    except MemoryError:
        print(TOO_MUCH_MEMORY, file=sys.stderr)
        return REFUSED
    except BrokenPipeError:  # enough was read
        os._exit(0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
