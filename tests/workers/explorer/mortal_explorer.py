"""An explorer in a separate process that continues interrupted rollouts, reports it, and waits to
be killed.

Arguments: the name of the database; "begun" to wait once two groups are written and others are
in progress.
"""

import os
import signal
import sys


def main(database: str, wanted: str = "further") -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "rftweb.settings"
    import django
    from django.conf import settings

    settings.DATABASES["default"]["NAME"] = database
    django.setup()
    from apps.rollouts.models import Group
    from apps.runs.models import Worker
    from tests.workers.explorer.sips import sipping
    from workers.explorer import loop, session

    loop.DRAIN_SECONDS = 0.005
    if wanted != "begun":
        # No slice may begin and end between two looks, however fast the machine is.
        session.build_engine = sipping(session.build_engine)
    worker = Worker.objects.create(
        key="mortal", role=Worker.Role.EXPLORER, host="test", pid=os.getpid()
    )
    if wanted == "begun":
        loop.ROLLOUTS_IN_FLIGHT = 8  # of 24: the rest is left to another explorer
    explorer = loop.ExplorerLoop(worker)
    while not explorer.sessions:
        explorer.serve()
    if wanted == "begun":
        wait_until_begun(explorer)
    (taken,) = explorer.sessions.values()
    while not any(is_further(in_flight) for in_flight in taken.rollouts.values()):
        explorer.serve()
        if not taken.rollouts and not Group.objects.filter(state=Group.State.SAMPLING).exists():
            sys.exit("all rollouts ended, and none of them was caught further than it is stored")
    print("further", flush=True)
    signal.pause()


def wait_until_begun(explorer) -> None:
    """Stop serving once two groups are written."""
    from apps.rollouts.models import Group

    while Group.objects.exclude(state="sampling").count() < 2:
        explorer.serve()
    print("begun", flush=True)
    signal.pause()


def is_further(in_flight) -> bool:
    """Return whether the rollout has more tokens than are stored."""
    from apps.rollouts.partial import PartialRollout

    kept = (
        PartialRollout.objects.filter(rollout=in_flight.rollout_id).first()
        if in_flight.slices
        else None
    )
    return kept is not None and len(in_flight.token_ids) > kept.completion_tokens


if __name__ == "__main__":
    main(*sys.argv[1:])
