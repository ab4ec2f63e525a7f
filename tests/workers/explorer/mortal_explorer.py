"""An explorer in a process of its own: goes on with rollouts that it had set aside, says so, and waits to be killed.

Its arguments: the name of the database; "begun" to wait once two groups are written and others are under way.
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
    from tests.workers.explorer.sips import sip
    from workers.explorer import station

    station.DRAIN_SECONDS = 0.005
    worker = Worker.objects.create(key="mortal", role=Worker.Role.EXPLORER, host="test", pid=os.getpid())
    if wanted == "begun":
        station.ROLLOUTS_IN_FLIGHT = 8  # of 24: the others are left to be sampled by somebody else
    explorer = station.Explorer(worker)
    while not explorer.seats:
        explorer.serve()
    if wanted == "begun":
        wait_until_begun(explorer)
    (seat,) = explorer.seats.values()
    sip(seat.engine)  # between two looks no slice is both begun and over, however busy the machine
    while not any(is_further(flight) for flight in seat.flights.values()):
        explorer.serve()
        if not seat.flights and not Group.objects.filter(state=Group.State.SAMPLING).exists():
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


def is_further(flight) -> bool:
    """Whether more has been said of it than is stored."""
    from apps.rollouts.partial import PartialRollout

    kept = PartialRollout.objects.filter(rollout=flight.rollout_id).first() if flight.slices else None
    return kept is not None and len(flight.token_ids) > kept.completion_tokens


if __name__ == "__main__":
    main(*sys.argv[1:])
