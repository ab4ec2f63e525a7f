"""Rules for every kind of lease, for every holder and every kind of row."""

import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connection, models, transaction

from apps.feedback import claiming, lease_renewal
from apps.feedback.models import Slot
from apps.leases.expiry import expire_all, list_lease_models
from apps.leases.lease import Claim, Lease, StaleFence, WorkerLease, after
from apps.leases.work import LeasedWork, WorkOver
from apps.policies.models import PolicyImport, PolicyRemoval, TemplatePreview
from apps.rewards.models import RegressionCheck, RescoredGroup, Rescoring, Trial
from apps.rollouts.models import ChatTurn, Group
from apps.rollouts.models.chats import Chat, ChatSubject
from apps.runs.models import ExportJob, ProjectRemoval, Run, RunRemoval, Worker
from apps.tasksets.models import TasksetImport
from tests.feedback.asking import ask

pytestmark = pytest.mark.django_db(transaction=True)
LONG = 600
HOLDERS = ("alice", "bob")  # keys of workers; for a slot, names of people


class Kind:
    """One kind of lease: how its row is created, claimed, and written under a claim."""

    model: type[Lease]

    def __init__(self, stage: SimpleNamespace) -> None:
        self.stage = stage
        self.row: Lease = self.make()

    def make(self) -> Lease:
        raise NotImplementedError

    def claim(self, owner: str) -> Claim | None:
        raise NotImplementedError

    def write(self, owner: str, claim: Claim) -> bool:
        """Write as the claim's holder does; return whether the write was accepted."""
        raise NotImplementedError

    def renew(self, owner: str, claim: Claim) -> bool:
        return self.model.objects.renew([claim], LONG) == {claim.pk}

    def release(self, owner: str, claim: Claim) -> None:
        self.model.objects.release([claim])

    def expire(self) -> None:
        self.model.objects.filter(pk=self.row.pk).update(lease_until=after(-1))

    def held(self, claim: Claim) -> Lease:
        """Return the row as an earlier holder remembers it."""
        row = self.model.objects.get(pk=claim.pk)
        row.fence = claim.fence
        return row


class OfGroup(Kind):
    model = Group

    def make(self) -> Group:
        [group] = Group.open(self.stage.run, "", 0, 1, 0)
        Group.objects.update(**Group.FREED)
        return group

    def claim(self, owner: str) -> Claim | None:
        claimed = Group.objects.claim(Group.State.SAMPLING, owner, LONG, 10)
        return claimed[0].claimed if claimed else None

    def write(self, owner: str, claim: Claim) -> bool:
        return _is_let(lambda: self.held(claim).move(Group.State.SCORING), StaleFence)


class OfChatTurn(Kind):
    model = ChatTurn

    def make(self) -> ChatTurn:
        chat = Chat.objects.create(weight_version=self.stage.run.weight_versions.get())
        return chat.turns.create(number=0, prompt=[], temperature=1.0, max_tokens=5, seed=1)

    def claim(self, owner: str) -> Claim | None:
        subject = ChatSubject(self.row.chat.weight_version_id, None)
        claimed = ChatTurn.objects.claim(subject, owner, LONG, self.stage.worker)
        return claimed[0].claimed if claimed else None

    def write(self, owner: str, claim: Claim) -> bool:
        return self.held(claim).write("a reply", 2)

    def release(self, owner: str, claim: Claim) -> None:
        self.held(claim).put_back()


class OfRescoredGroup(Kind):
    model = RescoredGroup

    def make(self) -> RescoredGroup:
        run = self.stage.run
        [group] = self.stage.finish(run)
        rescoring = Rescoring.create(run, run.settings, {}, [(group.pk, 2)])
        return rescoring.items.get()

    def claim(self, owner: str) -> Claim | None:
        claimed = RescoredGroup.objects.claim(self.row.rescoring, owner, LONG, 10)
        return claimed[0].claimed if claimed else None

    def write(self, owner: str, claim: Claim) -> bool:
        return bool(RescoredGroup.objects.held([claim]).update(other_best=True))


class OfRun(Kind):
    model = Run

    def make(self) -> Run:
        return self.stage.run

    def claim(self, owner: str) -> Claim | None:
        run = Run.objects.get(pk=self.row.pk)
        return run.claimed if run.claim_trainer(owner, LONG) else None

    def write(self, owner: str, claim: Claim) -> bool:
        def step() -> None:
            with self.row.fenced(claim.fence):
                pass

        return _is_let(step, StaleFence)


class OfWork(Kind):
    """Imports, weight orders and work of the test bench."""

    model: type[LeasedWork]

    def claim(self, owner: str) -> Claim | None:
        claimed = self.model.objects.claim(owner, LONG)
        return claimed.claimed if claimed else None

    def release(self, owner: str, claim: Claim) -> None:
        self.model.objects.release([claim], state="waiting")


class OfImport(OfWork):
    model = TasksetImport

    def make(self) -> TasksetImport:
        state = TasksetImport.State.WAITING
        return TasksetImport.objects.create(
            project=self.stage.project, name="a.jsonl", bytes=9, state=state
        )

    def write(self, owner: str, claim: Claim) -> bool:
        return _is_let(lambda: self.held(claim).fail("no task"), WorkOver)


class OfOrder(OfWork):
    model = ExportJob

    def make(self) -> ExportJob:
        version = self.stage.run.weight_versions.get()
        return ExportJob.place(ExportJob.Kind.EXPORT, version, None)

    def write(self, owner: str, claim: Claim) -> bool:
        return _is_let(lambda: self.held(claim).finish(bytes=1), WorkOver)


class OfTrial(OfWork):
    model = Trial

    def make(self) -> Trial:
        return Trial.create(self.stage.project, None, scorer="math", task={}, replies=[{}, {}])

    def write(self, owner: str, claim: Claim) -> bool:
        return self.held(claim).add([{"value": 1.0}])


class OfCheck(OfWork):
    model = RegressionCheck

    def make(self) -> RegressionCheck:
        return RegressionCheck.objects.create(project=self.stage.project, cases=2)

    def write(self, owner: str, claim: Claim) -> bool:
        return self.held(claim).add(1, 0, is_done=False)


class OfModelImport(OfWork):
    model = PolicyImport

    def make(self) -> PolicyImport:
        return PolicyImport.objects.create(
            project=self.stage.project, kind="named", source="smollm2", slug="new", title="New"
        )

    def write(self, owner: str, claim: Claim) -> bool:
        return _is_let(lambda: self.held(claim).fail("no model"), WorkOver)


class OfRemoval(OfWork):
    model = PolicyRemoval

    def make(self) -> PolicyRemoval:
        return PolicyRemoval.objects.create(project=self.stage.project, slug="old", folder="/none")

    def write(self, owner: str, claim: Claim) -> bool:
        self.held(claim).end()
        return PolicyRemoval.objects.filter(pk=claim.pk, state="done").exists()


class OfRunRemoval(OfWork):
    model = RunRemoval

    def make(self) -> RunRemoval:
        return RunRemoval.objects.create(project=self.stage.project, run_number=0, slug="gone")

    def write(self, owner: str, claim: Claim) -> bool:
        return _is_let(self.held(claim).finish, WorkOver)


class OfProjectRemoval(OfWork):
    model = ProjectRemoval

    def make(self) -> ProjectRemoval:
        return ProjectRemoval.objects.create(project=self.stage.project, slug="old", title="Old")

    def write(self, owner: str, claim: Claim) -> bool:
        return _is_let(self.held(claim).finish, WorkOver)


class OfPreview(OfWork):
    model = TemplatePreview

    def make(self) -> TemplatePreview:
        return TemplatePreview.objects.create(
            policy=self.stage.run.policy, by=self.stage.people["alice"], messages=[]
        )

    def write(self, owner: str, claim: Claim) -> bool:
        self.held(claim).finish([], 0)
        return TemplatePreview.objects.filter(pk=claim.pk, state="done").exists()


class OfSlot(Kind):
    model = Slot

    def make(self) -> Slot:
        run = self.stage.new_run(people={"per_group": 1, "deadline_s": LONG})
        ask(run, self.stage.finish)
        return Slot.objects.get()

    def claim(self, owner: str) -> Claim | None:
        claimed = claiming.claim(self.stage.people[owner])
        return Claim(claimed[0].slot_id, claimed[0].fence) if claimed else None

    def write(self, owner: str, claim: Claim) -> bool:
        user = self.stage.people[owner]
        skip = lambda: claiming.skip(user, claim.pk, claim.fence, "unclear")  # noqa: E731
        return _is_let(skip, claiming.NotHeld)

    def renew(self, owner: str, claim: Claim) -> bool:
        user = self.stage.people[owner]
        return _is_let(
            lambda: lease_renewal.extend_item_lease(user, claim.pk, claim.fence), claiming.NotHeld
        )

    def release(self, owner: str, claim: Claim) -> None:
        claiming.give_back_item(self.stage.people[owner], claim.pk, claim.fence)

    def expire(self) -> None:
        Slot.objects.update(held_at=after(-LONG), lease_until=after(-1))
        assert Slot.objects.expire() == 1  # only then may others claim it


KINDS = {
    kind.model: kind
    for kind in (
        OfGroup,
        OfChatTurn,
        OfRescoredGroup,
        OfRun,
        OfImport,
        OfOrder,
        OfTrial,
        OfCheck,
        OfModelImport,
        OfRemoval,
        OfRunRemoval,
        OfProjectRemoval,
        OfPreview,
        OfSlot,
    )
}


def _is_let(write: Callable[[], object], refusal: type[Exception]) -> bool:
    try:
        write()
    except refusal:
        return False
    return True


@pytest.fixture
def stage(project, new_run, finish, alice, bob) -> SimpleNamespace:
    worker = Worker.objects.create(key="explorer@test", role="explorer", host="here", pid=1)
    return SimpleNamespace(
        project=project,
        new_run=new_run,
        run=new_run(),
        finish=finish,
        worker=worker,
        people={"alice": alice, "bob": bob},
    )


@pytest.fixture(params=KINDS.values(), ids=lambda kind: kind.model.__name__)
def kind(request, stage) -> Kind:
    return request.param(stage)


def lease_of(kind: Kind) -> Lease:
    return kind.model.objects.get(pk=kind.row.pk)


def test_claim_gives_the_lease_to_only_one_holder(kind):
    claim = kind.claim("alice")
    assert claim == lease_of(kind).claimed
    assert kind.model.objects.leased().filter(pk=claim.pk).exists()
    assert kind.claim("bob") is None


def test_only_one_of_two_concurrent_claims_succeeds(kind):
    claims: list[Claim | None] = []
    together = threading.Barrier(2)

    def claim(owner: str) -> None:
        together.wait(60)
        claims.append(kind.claim(owner))
        connection.close()

    threads = [threading.Thread(target=claim, args=(owner,)) for owner in HOLDERS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(claims) == 2 and claims.count(None) == 1


def test_holder_can_renew_its_lease_and_write(kind):
    claim = kind.claim("alice")
    kind.model.objects.filter(pk=claim.pk).update(lease_until=after(5))
    assert kind.renew("alice", claim)
    if kind.model is not Slot:  # the renewal is as long as the lease
        assert kind.model.objects.filter(pk=claim.pk, lease_until__gt=after(LONG / 2)).exists()
    assert kind.write("alice", claim)


def test_late_holder_is_refused_after_another_has_claimed_the_row(kind):
    late = kind.claim("alice")
    kind.expire()
    claim = kind.claim("bob")
    assert claim.fence > late.fence
    assert not kind.renew("alice", late) and not kind.write("alice", late)
    assert lease_of(kind).claimed == claim and kind.write("bob", claim)


def test_expired_lease_can_be_renewed_only_if_its_kind_allows_it(kind):
    claim = kind.claim("alice")
    kind.expire()
    assert kind.renew("alice", claim) is kind.model.OUTLIVES_LEASE


def test_released_row_can_be_claimed_at_once_and_its_former_holder_is_refused(kind):
    early = kind.claim("alice")
    kind.release("alice", early)
    assert lease_of(kind).lease_until is None
    assert not kind.model.objects.held([early]).exists()
    assert kind.claim("bob").fence > early.fence


def test_expired_row_can_be_claimed_after_the_sweep_and_its_former_holder_is_refused(kind):
    late = kind.claim("alice")
    kind.expire()
    expire_all()
    assert not kind.model.objects.leased().exists()
    claim = kind.claim("bob")
    assert not kind.write("alice", late) and kind.write("bob", claim)


def test_sweep_does_not_touch_leases_in_force(kind):
    claim = kind.claim("alice")
    assert not any(expire_all().values()) and kind.write("alice", claim)


def test_revoked_holder_is_refused_and_the_row_is_free(kind):
    if not issubclass(kind.model, WorkerLease):
        pytest.skip("people are not revoked")
    revoked = kind.claim("alice")
    assert kind.model.objects.revoke("bob") == 0
    assert kind.model.objects.revoke("alice") == 1
    assert not kind.renew("alice", revoked) and not kind.write("alice", revoked)
    assert kind.claim("bob").fence > revoked.fence


def test_these_tests_cover_every_model_with_a_lease():
    leased = {model for model in apps.get_models() if _has_lease(model)}
    assert leased == set(list_lease_models()) == set(KINDS)


def _has_lease(model: type[models.Model]) -> bool:
    return any(field.name == "lease_until" for field in model._meta.get_fields())


def test_trainer_waits_for_a_transaction_that_changes_the_run(run, eventually):
    claimed: list[bool] = []

    def claim() -> None:
        claimed.append(Run.objects.get(pk=run.pk).claim_trainer("trainer", LONG))
        connection.close()

    trainer = threading.Thread(target=claim)
    with transaction.atomic():
        Run.objects.filter(pk=run.pk).update(groups_opened=7)
        trainer.start()
        eventually(_somebody_waits, 60)
    trainer.join(60)
    run.refresh_from_db()
    assert claimed == [True]
    assert (run.lease_owner, run.fence, run.groups_opened) == ("trainer", 1, 7)


def _somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")
        return cursor.fetchone()[0]
