"""Train a run's scalar head once: `python -m workers.rater_heads RUN`.

Exit code 0 when there is a new one.
"""

import argparse
import os
import sys

from workers.processes import die_with_parent

NICENESS = 10  # the run's own work goes first


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=int)
    parser.add_argument("--parent", type=int, help="PID of a process; stop when it stops.")
    options = parser.parse_args()
    if options.parent:
        die_with_parent(options.parent)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
    os.nice(NICENESS)
    import django

    django.setup()
    from apps.runs.models import Run
    from workers.rater_heads.training import train_head

    return int(train_head(Run.objects.get(pk=options.run)) is None)


if __name__ == "__main__":
    sys.exit(main())
