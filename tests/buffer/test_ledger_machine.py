"""Random claims, leases and fences, compared with a model that is simple enough to be correct.

The model knows only: which claim of a group is the newest, where each group stands, and how often
its lease ran out there. Whatever order workers open, claim, stall, finish, judge, refine, train and
die in, the database must agree with it and reconcile.
"""

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from apps.buffer.models import commit_step, plan_step
from apps.dashboard.reconciliation import reconcile
from apps.dashboard.reconciliation.groups import group_ledger
from apps.pipelines.refining import refine
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.models import Group, Outcome, Rollout
from apps.runs.models import Run, StaleFence, WeightVersion
from tests.conftest import tokens_of
from tests.profiles import tries

LONG = 600
OVER = 0
MAX_LAPSES = 3
IGNORED = {
    "engines served what was published",
    "published weights match their manifests",
}  # no engine here


class Ledger(RuleBasedStateMachine):
    new_run = None  # set by the test
    changes: dict = {"max_staleness": 1}
    plan: dict = {
        "group_size": 2,
        "groups_per_step": 2,
        "steps": 1000,
        "group_attempts": MAX_LAPSES,
        "task_attempts": 100,
    }

    def __init__(self) -> None:
        super().__init__()
        self.run = type(self).new_run(**type(self).plan, **type(self).changes)
        self.newest: dict[int, int] = {}  # group → the fence in force
        self.stalled: list[
            tuple[Group, str, bool]
        ] = []  # claims with a sleeping worker: the state it saw, whether its lease is valid
        self.state: dict[int, str] = {}
        self.fences: list[int] = []
        self.lapses: Counter[int] = (
            Counter()
        )  # claims of a group, its state, number of expired leases

    def hold(self, groups: list[Group], state: str, seconds: int) -> None:
        for group in groups:
            assert group.fence > self.newest.get(group.pk, 0), (
                "a claim must outrank every earlier one"
            )
            self.newest[group.pk] = group.fence
            assert self.state.setdefault(group.pk, state) == state, (
                "claimed in a state it is not in"
            )
            assert group.attempts == self.lapses[group.pk] < MAX_LAPSES, (
                "leases that ran out are attempts, and nothing else"
            )
            self.lapses[group.pk] += seconds == OVER
        self.stalled += [(group, state, seconds == LONG) for group in groups]

    def see_what_is_worn_out(self) -> None:
        for pk in Group.objects.filter(run=self.run, reason__startswith="failed ").values_list(
            "pk", flat=True
        ):
            assert self.lapses[pk] == MAX_LAPSES, (
                "only a group whose attempts are used up is dropped by a claim"
            )
            self.state[pk] = "dropped"

    @rule(count=st.integers(1, 3), seconds=st.sampled_from([LONG, OVER]))
    def open_groups(self, count, seconds):
        self.hold(
            Group.open(self.run, "e", seconds, count, self.run.published_version),
            "sampling",
            seconds,
        )

    @rule(
        state=st.sampled_from(["sampling", "scoring", "judged"]),
        seconds=st.sampled_from([LONG, OVER]),
    )
    def another_worker_takes_over(self, state, seconds):
        self.hold(Group.objects.claim(state, "w", seconds, 2, self.run), state, seconds)
        self.see_what_is_worn_out()

    @precondition(lambda self: self.stalled)
    @rule(data=st.data())
    def a_worker_wakes_and_writes(self, data):
        group, saw, lasts = self.stalled.pop(data.draw(st.integers(0, len(self.stalled) - 1)))
        may = lasts and self.newest[group.pk] == group.fence and self.state[group.pk] == saw
        assert self.write(group, saw) == may, (
            "exactly the newest claim may write, while its lease lasts"
        )

    def write(self, group: Group, saw: str) -> bool:
        if saw == "sampling":
            outcomes = [
                Outcome(r.pk, tokens_of(t, self.run.published_version), t, "stop")
                for r, t in zip(group.rollouts.all(), ("12345", "9"), strict=True)
            ]
            written = bool(Group.finish_rollouts({group.pk: group.claimed}, outcomes))
            self.advance(group, written, "scoring")
        elif saw == "scoring":
            written = bool(
                record_verdicts(
                    [group],
                    [
                        AnsweredQuestion(
                            q, [Verdict(float(q.rollouts[0].text == "12345"), "model")]
                        )
                        for q in open_questions([group])
                    ],
                )
            )
            self.advance(group, written, "judged")
        else:
            written = bool(refine([group]))
            self.advance(group, written, "admitted")
        return written

    def advance(self, group: Group, written: bool, to: str) -> None:
        if written:
            self.state[group.pk], self.lapses[group.pk] = to, 0

    @precondition(lambda self: self.stalled)
    @rule(data=st.data())
    def a_worker_gives_up(self, data):
        group, saw, lasts = self.stalled.pop(data.draw(st.integers(0, len(self.stalled) - 1)))
        may = lasts and self.newest[group.pk] == group.fence and self.state[group.pk] == saw
        try:
            group.drop("gave up")
            assert may
            self.state[group.pk] = "dropped"
        except StaleFence:
            assert not may

    @rule()
    def a_trainer_takes_over(self):
        Run.objects.filter(pk=self.run.pk).update(lease_until=None)
        assert self.run.claim_trainer("t", LONG)
        self.fences.append(self.run.fence)

    @precondition(lambda self: self.fences)
    @rule(data=st.data(), commits=st.booleans())
    def a_trainer_trains(self, data, commits):
        fence = data.draw(st.sampled_from(self.fences))
        run = Run.objects.get(pk=self.run.pk)
        try:
            step = plan_step(run, fence)
            if step and commits:
                with run.fenced(fence) as locked:
                    commit_step(locked, step, fence)
                self.publish(step.number)
            assert fence == max(self.fences), "only the newest trainer may write"
        except StaleFence:
            assert fence < max(self.fences)
        self.run.refresh_from_db()

    def publish(self, number: int) -> None:
        version = WeightVersion.objects.create(
            run=self.run, version=number, folder="/nowhere", fingerprint="f", step=number
        )
        version.verify()
        version.publish()

    @invariant()
    def the_database_agrees_with_the_model(self):
        rows = dict(Group.objects.filter(run=self.run).values_list("pk", "state"))
        assert rows == self.state
        ledger = group_ledger(self.run)
        assert ledger["issued"] == sum(
            count for place, count in ledger.items() if place != "issued"
        )

    def teardown(self):
        self.run.stop()
        assert {
            name: found for name, found in reconcile().items() if found and name not in IGNORED
        } == {}
        assert Rollout.objects.filter(run=self.run).count() == 2 * len(self.state)


class Replaying(Ledger):
    """The same, with every second group of an update replayed if allowed."""

    changes = {
        "max_staleness": 3,
        "reading": {"replay": {"name": "uniform", "share": 0.5, "cool_down": 1}},
    }


@pytest.mark.slow
@pytest.mark.parametrize("machine", [Ledger, Replaying])
def test_random_claims_leases_and_fences_keep_the_ledger_consistent(new_run, machine):
    machine.new_run = staticmethod(new_run)
    run_state_machine_as_test(
        machine,
        # Shrinking against a real database takes minutes and adds little to the steps
        # printed.
        settings=settings(
            max_examples=tries(15),
            stateful_step_count=30,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
