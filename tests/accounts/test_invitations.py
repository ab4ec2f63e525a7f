"""Invitations: links that give a role in a project, a limited number of times."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from apps.accounts.models import (
    AuditEntry,
    Invitation,
    InvitationEnded,
    LastOwner,
    Membership,
    NoMember,
    User,
)

pytestmark = pytest.mark.django_db
WEEK = timedelta(days=7)


def test_an_invitation_gives_its_role(project, alice, carol):
    _, secret = Invitation.create(project, "rater", WEEK, alice)
    assert Invitation.objects.presented(secret).accept(carol)
    assert Membership.objects.get(project=project, user=carol).role == "rater"
    acts = AuditEntry.objects.filter(project=project).order_by("pk").values_list("action", "name")
    assert list(acts) == [
        ("invitation created", "alice"),
        ("invitation accepted", "carol"),
        ("role given", "alice"),
    ]


def test_the_secret_is_not_stored(project, alice):
    invitation, secret = Invitation.create(project, "rater", WEEK, alice)
    row = Invitation.objects.filter(pk=invitation.pk).values_list().get()
    assert secret not in map(str, row)
    assert not AuditEntry.objects.filter(details__icontains=secret).exists()


@pytest.mark.parametrize("end", ["used", "expired", "revoked"])
def test_an_ended_invitation_is_not_found(project, alice, bob, carol, end):
    invitation, secret = Invitation.create(project, "viewer", WEEK, alice)
    if end == "used":
        invitation.accept(carol)
    elif end == "expired":
        past = timezone.now() - timedelta(seconds=1)
        Invitation.objects.filter(pk=invitation.pk).update(expires_at=past)
    else:
        invitation.revoke(alice)
    assert Invitation.objects.presented(secret) is None
    assert Invitation.objects.get(pk=invitation.pk).state == end


def test_invitation_revoked_after_lookup_gives_no_role(project, alice, carol):
    invitation, secret = Invitation.create(project, "viewer", WEEK, alice)
    found = Invitation.objects.presented(secret)
    invitation.revoke(alice)
    with pytest.raises(InvitationEnded, match="no longer valid"):
        found.accept(carol)
    assert not Membership.objects.filter(user=carol).exists()


def test_existing_member_keeps_the_role_and_consumes_no_use(project, alice, bob):
    invitation, _ = Invitation.create(project, "owner", WEEK, alice)
    assert not invitation.accept(bob)
    assert Membership.objects.get(user=bob).role == "rater"
    assert Invitation.objects.get(pk=invitation.pk).uses == 0


@pytest.mark.django_db(transaction=True)
def test_only_one_of_two_concurrent_users_gets_the_last_use(project, alice):
    invitation, _ = Invitation.create(project, "rater", WEEK, alice)
    people = [User.objects.create(username=name) for name in ("one", "two")]

    def join(person: User) -> bool:
        try:
            return Invitation.objects.get(pk=invitation.pk).accept(person)
        except InvitationEnded:
            return False
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(join, people)) == [False, True]
    assert Membership.objects.filter(project=project, role="rater").count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_person_who_accepts_two_invitations_at_once_joins_once(project, alice, carol):
    invitations = [Invitation.create(project, role, WEEK, alice)[0] for role in ("rater", "viewer")]

    def join(invitation: Invitation) -> bool:
        try:
            return Invitation.objects.get(pk=invitation.pk).accept(carol)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(join, invitations)) == [False, True]
    assert sum(Invitation.objects.values_list("uses", flat=True)) == 1
    assert AuditEntry.objects.filter(action="invitation accepted").count() == 1


def test_role_change_does_not_restore_a_removed_member(project, alice, bob):
    stale = Membership.objects.get(user=bob)
    Membership.objects.get(user=bob).take(alice)
    stale.role = "researcher"
    with pytest.raises(NoMember, match="no longer a member"):
        stale.give(alice)
    assert not Membership.objects.filter(user=bob).exists()


def test_the_last_owner_can_neither_leave_nor_step_down(project, alice):
    owner = Membership.objects.get(user=alice)
    with pytest.raises(LastOwner):
        owner.take(alice)
    owner.role = "rater"
    with pytest.raises(LastOwner):
        owner.give(alice)
    assert Membership.objects.get(user=alice).role == "owner"


@pytest.mark.django_db(transaction=True)
def test_when_two_owners_leave_at_once_one_stays(project, alice, carol):
    Membership.objects.create(project=project, user=carol, role="owner")

    def leave(person: User) -> bool:
        try:
            Membership.objects.get(user=person).take(person)
            return True
        except LastOwner:
            return False
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(leave, [alice, carol])) == [False, True]
    assert Membership.objects.filter(project=project, role="owner").count() == 1


def test_the_links_of_a_former_owner_no_longer_work(project, alice, carol):
    Membership.objects.create(project=project, user=carol, role="owner")
    _, secret = Invitation.create(project, "owner", WEEK, alice)
    Membership.objects.get(user=alice).take(carol)
    assert Invitation.objects.presented(secret) is None
