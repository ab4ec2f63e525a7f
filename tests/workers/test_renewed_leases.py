"""A lease stays renewed during long work, whatever an attempt to renew it meets."""

import pytest
from django.db import connection
from django.db.models.functions import Now

from apps.policies.models import PolicyImport
from workers.leases import renewed

EVERY_S = 0.05


@pytest.mark.django_db(transaction=True)
def test_lease_is_renewed_again_after_the_database_has_ended_the_connection(project, eventually):
    made = PolicyImport.objects.create(project=project, slug="mine", kind="hub", source="a/b")
    taken = PolicyImport.objects.claim("test", 60)
    renewals = []

    def renew() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            renewals.append(cursor.fetchone()[0])
        taken.renew(60)

    with renewed(renew, EVERY_S):
        first = eventually(lambda: renewals and renewals[0])
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [first])
        eventually(lambda: renewals[-1] != first)
        PolicyImport.objects.filter(pk=made.pk).update(lease_until=Now())
        eventually(lambda: PolicyImport.objects.leased().filter(pk=made.pk).exists())


def test_lease_is_renewed_again_after_a_file_that_was_measured_has_vanished(eventually):
    renewals = []

    def renew() -> None:
        renewals.append(len(renewals))
        if len(renewals) == 1:
            raise FileNotFoundError("the file was renamed")

    with renewed(renew, EVERY_S):
        eventually(lambda: len(renewals) > 2)
