"""A weight version that somebody pins while old versions are being retired keeps its files."""

import threading

import pytest
from django.db import connection, connections, transaction
from django.utils import timezone

from apps.runs import version_retirement
from apps.runs.models import Run, WeightVersion

WAITING = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"


def is_anybody_waiting() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(WAITING)
        return bool(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
def test_version_that_is_pinned_during_the_retirement_keeps_its_folder(new_run, eventually):
    run = new_run(checkpoints={"weights": 2})
    for number in (1, 2, 3, 4):
        run.weight_versions.create(version=number, state="published", folder="/nowhere")
    retired: list[WeightVersion] = []

    def retire() -> None:
        with transaction.atomic():
            retired.extend(version_retirement.retire_versions(Run.locked(run.pk)))
        connections.close_all()

    trainer = threading.Thread(target=retire)
    with transaction.atomic():
        run.weight_versions.filter(version=2).update(pinned_at=timezone.now())
        trainer.start()
        eventually(is_anybody_waiting)
    trainer.join()
    states = dict(run.weight_versions.values_list("version", "state"))
    assert [number for number, state in states.items() if state == "retired"] == [1]
    assert [version.version for version in retired] == [1]
