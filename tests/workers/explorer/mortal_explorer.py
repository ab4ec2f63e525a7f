"""An explorer in a process of its own: goes on with rollouts that it had set aside, says so, and
waits to be killed.

Its arguments: the name of the database; "begun" to wait once two groups are written and others are
under way.
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
        # Between two looks no slice both begins and ends, however fast or busy the machine is.
        session.build_engine = sipping(session.build_engine)
    worker = Worker.objects.create(
        key="mortal", role=Worker.Role.EXPLORER, host="test", pid=os.getpid()
    )
    if wanted == "begun":
        loop.ROLLOUTS_IN_FLIGHT = 8  # of 24: the others are left to be sampled by somebody else
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
    """Whether more has been said of it than is stored."""
    from apps.rollouts.partial import PartialRollout

    kept = (
        PartialRollout.objects.filter(rollout=in_flight.rollout_id).first()
        if in_flight.slices
        else None
    )
    return kept is not None and len(in_flight.token_ids) > kept.completion_tokens


if __name__ == "__main__":
    main(*sys.argv[1:])
