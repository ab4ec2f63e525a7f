"""Each rule opens an alert at its threshold, closes it well within it, and shows the metric, the
start and the advice.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from apps.alerts.facts import DiskSpace, Facts, GroupsInState, OpenBreaker, RewardWarning
from apps.alerts.kinds import AS_JUDGED, TITLES, TO_ALL, TO_STEERERS
from apps.alerts.learning_stalls import Fruitless
from apps.alerts.processes import LostWorker
from apps.alerts.rules import RULES, apply_rule, format_duration
from apps.runs.alerts import Alerts
from apps.runs.control_plane import ControlPlane
from apps.runs.parsing import parse_config

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
STEADY = {"policy": "tiny", "taskset": "sort", "steps": 100, "rewards": [{"scorer": "sort"}]}


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def facts(config: dict | None = None, **known: object) -> Facts:
    heartbeats = dict.fromkeys(("explorer", "scorer", "refiner", "trainer"), NOW)
    return replace(
        Facts(
            NOW,
            parse_config(STEADY | (config or {})),
            step=40,
            moved_at=ago(5),
            live_since=ago(9_000),
            heartbeats=heartbeats,
        ),
        **known,
    )


def curve(*values: float) -> list[tuple[int, float]]:
    return list(enumerate(values, start=41 - len(values)))


def control(behind_s: float, **known: object) -> ControlPlane:
    plane = ControlPlane(NOW, behind_s, ago(behind_s), workers=1, beats=1, queued=0)
    return replace(plane, **known)


# Values of the first updates; the second 20 are not part of the baseline.
GAP = [(n, 0.001 if n <= 5 else 0.02) for n in range(1, 21)]
GAP += [(n, 9.0) for n in range(21, 41)]

# For each rule: facts that trigger it, the same facts without the trigger, and words that its
# alert must contain.
SPEAKING = {
    "no_progress": (
        facts(moved_at=ago(1_801)),
        facts(moved_at=ago(1_799)),
        ["No step for 30 min", "step 40"],
    ),
    "starvation": (
        facts(
            moved_at=ago(901),
            waiting_on="2 more groups",
            groups_by_state={"waiting": GroupsInState(3, ago(950))},
        ),
        facts(
            moved_at=ago(899),
            waiting_on="2 more groups",
            groups_by_state={"waiting": GroupsInState(3, ago(950))},
        ),
        ["15 min for raters", "3 groups", "the oldest for 15 min"],
    ),
    "nothing_learned": (
        facts(
            fruitless=Fruitless(
                320,
                ago(60),
                [(300, "the standard deviation of the rewards is not above 0"), (20, "it is away")],
            )
        ),
        facts(),
        [
            "The last 320 groups",
            "300 × the standard deviation of the rewards is not above 0; 20 × it is away",
        ],
    ),
    "not_finite": (
        facts(unapplied=[(21, "loss is nan", ago(60))]),
        facts(unapplied=[(20, "loss is nan", ago(60))]),
        ["1 of the last 20", "loss is nan"],
    ),
    "kl": (
        facts(curves={"kl": curve(1.0, 1.1, 1.2)}),
        facts(curves={"kl": curve(0.9, 1.0, 1.1)}),
        ["1.1 nats", "steps 38 to 40", "the limit is 1"],
    ),
    "agreement": (
        facts(scorers=[RewardWarning("tone", "Scorer tone misses its target.", ago(60))]),
        facts(),
        ["Scorer tone"],
    ),
    "suspected": (
        facts(suspicions=[RewardWarning("length", "Length drifts.", ago(60))]),
        facts(suspicions=[RewardWarning("divergence", "They part.", ago(60))]),
        ["Length drifts"],
    ),
    "entropy": (
        facts(curves={"entropy": curve(*[0.1] * 5)}, first_entropy=[(n, 2.5) for n in range(1, 8)]),
        facts(
            curves={"entropy": curve(*[0.13] * 5)}, first_entropy=[(n, 2.5) for n in range(1, 8)]
        ),
        ["0.1 nats", "4.0% of the initial 2.5"],
    ),
    "behaviour_gap": (
        facts(curves={"behaviour_gap": curve(*[0.07] * 5)}, first_gap=GAP),
        facts(curves={"behaviour_gap": curve(*[0.06] * 5)}, first_gap=GAP),
        ["0.07 nats", "steps 36 to 40", "steps was 0.02", "the limit is 0.06"],
    ),
    "unacknowledged": (
        facts(unserved=(7, ago(301))),
        facts(unserved=(7, ago(299))),
        ["Version 7", "5 min ago"],
    ),
    "breaker": (
        facts(
            {"environment": {"name": "maze"}}, failing=[OpenBreaker("maze", "it is away", 6, NOW)]
        ),
        facts({"environment": {"name": "maze"}}),
        ["maze failed 6 times", "it is away"],
    ),
    "disk": (
        facts(disks=[DiskSpace("weights", 4 * 10**9, 10**11)]),
        facts(disks=[DiskSpace("weights", 6 * 10**9, 10**11)]),
        ["4.0 GB", "4.0%"],
    ),
    "silence": (
        facts(heartbeats={"explorer": NOW, "scorer": NOW, "refiner": NOW, "trainer": ago(121)}),
        facts(),
        ["No trainer is running", "2 min ago"],
    ),
    "control_worker_late": (
        facts(control=control(61, queued=3)),
        facts(control=control(59)),
        ["No sweep for 61 s", "3 jobs in its queue"],
    ),
    "lost_worker": (
        facts(lost=[LostWorker("scorer@lab:7:1", "scorer", True, ago(61), "", others=1)]),
        facts(lost=[LostWorker("scorer@lab:7:1", "scorer", True, ago(59), "", others=1)]),
        ["The scorer scorer@lab:7:1 is dead", "61 s ago", "1 other is running"],
    ),
    "budget": (
        facts({"budget": {"gpu_hours": 10}}, spent={"gpu_hours": 8.0}),
        facts({"budget": {"gpu_hours": 10}}, spent={"gpu_hours": 7.9}),
        ["8 of 10 GPU hours", "80%"],
    ),
}


def test_every_rule_of_the_configuration_is_implemented_and_has_readers():
    told = [*TO_ALL, *AS_JUDGED, *TO_STEERERS]
    assert (
        sorted(Alerts.model_fields)
        == sorted(RULES)
        == sorted(TITLES)
        == sorted(told)
        == sorted(SPEAKING)
    )


@pytest.mark.parametrize("name", RULES)
def test_rule_opens_only_beyond_its_threshold(name):
    speaking, silent, words = SPEAKING[name]
    [found] = apply_rule(speaking, name)
    assert [word for word in words if word not in found.words] == []
    assert found.todo and found.since <= NOW
    assert apply_rule(silent, name) == []


def test_entropy_rule_is_silent_without_first_values():
    assert (
        apply_rule(facts(curves={"entropy": curve(*[0.13] * 5)}, first_entropy=[]), "entropy") == []
    )


def test_environment_retried_without_success_is_still_reported():
    [found] = apply_rule(
        facts(
            {"environment": {"name": "maze"}},
            failing=[OpenBreaker("maze", "it is away", 6, ago(60))],
        ),
        "breaker",
    )
    assert "has been retried since" in found.words


@pytest.mark.parametrize("name", RULES)
def test_disabled_rule_is_silent(name):
    speaking, *_ = SPEAKING[name]
    plan = speaking.plan.model_dump(mode="json")
    assert (
        apply_rule(replace(speaking, plan=parse_config({**plan, "alerts": {name: None}})), name)
        == []
    )


@pytest.mark.parametrize(
    ("name", "edge", "key"),
    [
        ("kl", facts(curves={"kl": curve(0.95, 0.95, 0.95)}), "kl"),
        (
            "entropy",
            facts(
                curves={"entropy": curve(*[0.13] * 5)},
                first_entropy=[(n, 2.5) for n in range(1, 8)],
            ),
            "",
        ),
        (
            "behaviour_gap",
            facts(curves={"behaviour_gap": curve(*[0.058] * 5)}, first_gap=GAP),
            "",
        ),
        ("disk", facts(disks=[DiskSpace("weights", 52 * 10**8, 10**11)]), "weights"),
    ],
)
def test_open_alert_closes_only_well_within_its_limit(name, edge, key):
    assert apply_rule(edge, name) == [] and apply_rule(edge, name, frozenset([key]))


@pytest.mark.parametrize(
    ("newest", "first"),
    [
        ([0.9] * 5, []),  # nothing to compare with
        ([0.9] * 4, GAP),  # too few updates since
        ([0.04] * 5, [(n, 1e-6) for n in range(1, 21)]),  # grown, and still small
    ],
)
def test_small_or_unchanged_gap_opens_no_alert(newest, first):
    known = facts(curves={"behaviour_gap": curve(*newest)}, first_gap=first)
    assert apply_rule(known, "behaviour_gap") == []


def test_slow_updates_open_no_alert_before_ten_times_their_duration():
    slow = {"step_seconds": curve(400, 400, 400)}
    assert apply_rule(facts(moved_at=ago(3_900), curves=slow), "no_progress") == []
    assert apply_rule(facts(moved_at=ago(4_000), curves=slow), "no_progress")


def test_serving_run_without_calls_opens_no_alert():
    caller = {
        "serve": {},
        "environment": {"name": "agent"},
        "group_size": 1,
        "algorithm": {"name": "reinforce_plus_plus"},
    }
    serving = facts(caller, moved_at=ago(90_000))
    assert apply_rule(serving, "no_progress") == []
    assert apply_rule(
        replace(serving, groups_by_state={"judged": GroupsInState(1, ago(80_000))}), "no_progress"
    )


def test_low_entropy_opens_no_alert_when_tasks_are_solved():
    curves = {"entropy": curve(*[0.01] * 5), "success": curve(*[0.97] * 5)}
    assert (
        apply_rule(facts(curves=curves, first_entropy=[(n, 2.5) for n in range(1, 8)]), "entropy")
        == []
    )


def test_starvation_alert_names_the_worker_with_most_groups():
    groups = {"sampling": GroupsInState(1, ago(20)), "judged": GroupsInState(4, ago(1_000))}
    [found] = apply_rule(
        facts(moved_at=ago(1_000), waiting_on="groups", groups_by_state=groups), "starvation"
    )
    assert "for the refiner: 4 groups" in found.words


def test_missing_workers_are_reported_only_for_roles_that_the_run_needs():
    lessons = {
        "algorithm": {"name": "sft"},
        "rewards": [],
        "snapshot": {"source": "demonstrations"},
    }
    assert [found.key for found in apply_rule(facts(lessons, heartbeats={}), "silence")] == [
        "trainer"
    ]


LOST = LostWorker("explorer@lab:7:1", "explorer", True, ago(300), "silent", others=2)


@pytest.mark.parametrize(
    ("one", "told"),
    [
        (LOST, True),
        (replace(LOST, since=ago(90_000)), False),  # counts as stopped
        (replace(LOST, since=ago(9_500)), False),  # before the run was live
        (replace(LOST, others=0), False),  # the rule silence reports it
        (replace(LOST, is_dead=False, since=ago(1), why="by root", others=0), True),
    ],
)
def test_lost_worker_is_reported_only_while_others_of_its_role_are_running(one, told):
    assert [found.key for found in apply_rule(facts(lost=[one]), "lost_worker")] == [
        LOST.key
    ] * told


def test_open_alert_of_a_lost_worker_stays_open_when_the_others_die():
    assert apply_rule(facts(lost=[replace(LOST, others=0)]), "lost_worker", frozenset([LOST.key]))


def test_lost_worker_of_an_unneeded_role_is_not_reported():
    lessons = {
        "algorithm": {"name": "sft"},
        "rewards": [],
        "snapshot": {"source": "demonstrations"},
    }
    assert apply_rule(facts(lessons, lost=[LOST]), "lost_worker") == []


def test_an_evaluation_makes_no_updates_and_needs_no_trainer():
    asked = facts({"evaluation": {}, "steps": 0}, moved_at=ago(90_000), heartbeats={})
    assert apply_rule(asked, "no_progress") == []
    assert [found.key for found in apply_rule(asked, "silence")] == [
        "explorer",
        "scorer",
        "refiner",
    ]


def test_used_up_budget_is_final_even_if_its_rule_is_disabled():
    used = facts({"budget": {"tokens": 1_000}}, spent={"tokens": 1_000.0})
    untold = replace(
        used, plan=parse_config({**used.plan.model_dump(mode="json"), "alerts": {"budget": None}})
    )
    assert [found.is_final for one in (used, untold) for found in apply_rule(one, "budget")] == [
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(40, "40 s"), (900, "15 min"), (9_000, "2 h 30 min"), (400_000, "4 days")],
)
def test_durations_are_formatted_for_people(seconds, words):
    assert format_duration(seconds) == words


def test_an_evaluation_needs_no_trainer_and_makes_no_progress():
    asking = {"steps": 0, "evaluation": {}}
    assert [found.key for found in apply_rule(facts(asking, heartbeats={}), "silence")] == [
        "explorer",
        "scorer",
        "refiner",
    ]
    assert apply_rule(facts(asking, moved_at=ago(80_000)), "no_progress") == []


@pytest.mark.parametrize(
    ("known", "advice"),
    [
        ({"workers": 0, "beats": 0}, "No control worker is running"),
        ({"beats": 0}, "Beat is not running"),
        ({"queued": None}, "Redis does not answer"),
        ({}, "control worker's log"),
    ],
)
def test_control_alert_explains_the_cause_of_the_delay(known, advice):
    [found] = apply_rule(facts(control=control(90, **known)), "control_worker_late")
    assert advice in found.todo and found.since == ago(90)
