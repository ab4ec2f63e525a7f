"""An explorer in a process of its own: goes on with rollouts that it had set aside, says so, and waits to be killed.

Its one argument is the name of the database.
"""

import os
import signal
import sys


def main(database: str) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "rftweb.settings"
    import django
    from django.conf import settings

    settings.DATABASES["default"]["NAME"] = database
    django.setup()
    from apps.runs.models import Worker
    from workers.explorer import station

    station.DRAIN_SECONDS = 0.005
    worker = Worker.objects.create(key="mortal", role=Worker.Role.EXPLORER, host="test", pid=os.getpid())
    explorer = station.Explorer(worker)
    while not any(is_further(flight) for seat in explorer.seats.values() for flight in seat.flights.values()):
        explorer.serve()
    print("further", flush=True)
    signal.pause()


def is_further(flight) -> bool:
    """Whether more has been said of it than is stored."""
    from apps.rollouts.partial import PartialRollout

    kept = PartialRollout.objects.filter(rollout=flight.rollout_id).first() if flight.slices else None
    return kept is not None and len(flight.token_ids) > kept.completion_tokens


if __name__ == "__main__":
    main(sys.argv[1])
