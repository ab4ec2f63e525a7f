"""Ask an installation repeatedly for an import, an export, a delivery and the release of a lease.

`python tests/stack/control_probe.py SECONDS WEBHOOK`, with the installation's environment. The last
line is one JSON object: the seconds each took, by kind, and the most messages of one job seen in a
queue.
"""

import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import django

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
django.setup()

from django.conf import settings  # noqa: E402
from django.db.models import Max  # noqa: E402

from apps.accounts.models import Project, User  # noqa: E402
from apps.alerts.models import Channel, Delivery  # noqa: E402
from apps.rollouts.models import Group  # noqa: E402
from apps.runs.models import ExportJob, Run, after  # noqa: E402
from apps.streaming import wakeups  # noqa: E402
from apps.tasksets.import_files import create_import  # noqa: E402
from apps.tasksets.models import TasksetImport  # noqa: E402

LOOK_S = 0.1
GIVEN_UP_S = 120.0
FILE = b"".join(b'{"prompt": "%d", "answer": "%d"}\n' % (number, number) for number in range(200))


def ask_import(number: int) -> Callable[[], bool]:
    """Upload a file, and start its import as soon as its preview is ready."""
    made = create_import(project, root, f"tasks-{number}.jsonl", len(FILE), [FILE])
    wakeups.send("import_tasksets")  # as the page does

    def is_stored() -> bool:
        one = TasksetImport.objects.get(pk=made.pk)
        if one.state == TasksetImport.State.LOOKED_AT:
            one.start(f"tasks-{number}", one.how, root)
            wakeups.send("import_tasksets")
            return False
        return _is_done(one)

    return is_stored


def ask_export(number: int) -> Callable[[], bool]:
    version = Run.objects.get(slug="waiting").weight_versions.get(version=0)
    made = ExportJob.place(ExportJob.Kind.EXPORT, version, root)
    return lambda: _is_done(ExportJob.objects.get(pk=made.pk))


def ask_delivery(number: int) -> Callable[[], bool]:
    made = channel.test()
    return lambda: Delivery.objects.get(pk=made.pk).state == Delivery.State.SENT


def expire_lease(number: int) -> Callable[[], bool]:
    """Expire the lease of a group that waits for people: no worker claims it, only the sweep."""
    group = Group.objects.filter(state=Group.State.WAITING).order_by("pk").first()
    Group.objects.filter(pk=group.pk).update(lease_owner="dead@worker", lease_until=after(-1))
    return lambda: Group.objects.get(pk=group.pk).lease_until is None


def _is_done(work: TasksetImport | ExportJob) -> bool:
    if work.state not in ("waiting", "running", "done"):
        raise SystemExit(f"{work} ended as {work.state}: {work.reason}")
    return work.state == "done"


ASK = {"import": ask_import, "export": ask_export, "delivery": ask_delivery, "lease": expire_lease}


def look_at_queues() -> None:
    for queue in (one.name for one in settings.CELERY_TASK_QUEUES):
        for job, count in Counter(wakeups.jobs_in(queue)).items():
            most_queued[job] = max(most_queued[job], count)


def one_round(number: int) -> None:
    """Ask for one of each at the same time, and wait for all."""
    began = time.monotonic()
    open_ones = {kind: ask(number) for kind, ask in ASK.items()}
    while open_ones:
        look_at_queues()
        for kind in [kind for kind, is_served in open_ones.items() if is_served()]:
            served_s[kind].append(round(time.monotonic() - began, 2))
            del open_ones[kind]
        if time.monotonic() - began > GIVEN_UP_S:
            raise SystemExit(f"not served within {GIVEN_UP_S:.0f} s: {', '.join(open_ones)}")
        time.sleep(LOOK_S)


if __name__ == "__main__":
    ends = time.monotonic() + float(sys.argv[1])
    project = Project.objects.get(slug="demo")
    root = User.objects.get(username="root")
    channel = Channel.make(project, "webhook", sys.argv[2], root)
    served_s: dict[str, list[float]] = defaultdict(list)
    most_queued: Counter[str] = Counter()
    first = TasksetImport.objects.aggregate(Max("pk"))["pk__max"] or 0
    number = first
    while time.monotonic() < ends:
        number += 1
        one_round(number)
    print(json.dumps({"served_s": served_s, "most_queued": most_queued}))
