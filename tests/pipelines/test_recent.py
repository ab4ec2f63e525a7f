"""Metrics of earlier groups that an operator gets: of those that came as far and were closed by
then.
"""

from apps.dashboard.reconciliation.groups import groups_match_their_counters
from apps.pipelines.dry_run import dry_run
from apps.pipelines.operators.balance import Options
from apps.pipelines.operators.contract import GroupMetrics
from apps.pipelines.recent import recent
from apps.pipelines.refining import load_cases
from apps.rollouts.models import Group
from apps.runs.pipeline import OperatorChoice


def told(group, **options):
    [found] = recent(load_cases([Group.objects.get(pk=group.pk)]), [Options(**options)])
    return found


def test_operator_gets_metrics_of_earlier_groups_newest_first(new_run, judge):
    run = new_run()
    run.taskset.tasks.update(domain="math")
    judge(run, (0.0, 1.0), (1.0, 0.5))
    [last] = judge(run, (0.5, 0.0))
    found = told(last, attribute="success")
    assert found.own == GroupMetrics("math", 4.0, 0.25) and found.before == (
        GroupMetrics("math", 4.0, 0.75),
        GroupMetrics("math", 4.0, 0.5),
    )


def test_rewards_are_queried_only_if_balancing_by_success(run, judge, django_assert_num_queries):
    judge(run, (0.0, 1.0))
    [last] = judge(run, (1.0, 0.5))
    cases = load_cases([Group.objects.get(pk=last.pk)])
    assert cases[0].group.run.settings
    with django_assert_num_queries(2):
        recent(cases, [Options(attribute="length")])
    with django_assert_num_queries(3):
        recent(cases, [Options(attribute="success")])


def test_groups_dropped_by_balance_count_as_earlier_groups_and_others_do_not(run, judge):
    groups = judge(run, *[(0.0, 1.0)] * 3)
    [last] = judge(run, (0.0, 1.0))
    Group.objects.filter(pk=groups[0].pk).update(
        state=Group.State.DROPPED, reason="balance: domain 'math' made up 90%"
    )
    Group.objects.filter(pk=groups[1].pk).update(
        state=Group.State.DROPPED, reason="length: more than 3 tokens"
    )
    assert len(told(last).before) == 2 and told(groups[0]).before == ()


def test_second_attempt_gets_the_same_earlier_groups(run, judge):
    judge(run, (0.0, 1.0))
    first, second = judge(run, (0.0, 1.0), (0.0, 1.0))
    before = told(second)
    judge(run, (0.0, 0.5))
    assert told(second) == before == told(first) and len(before.before) == 1


def test_balance_states_which_groups_are_too_frequent_and_counts_dropped_ones(
    new_run, judge, monkeypatch
):
    run = new_run(
        max_staleness=10,
        pipeline=[{"operator": "balance", "options": {"attribute": "success", "min_groups": 10}}],
    )
    judge(run, *[(0.0, 1.0)] * 8, *[(0.0, 0.25)] * 2)
    monkeypatch.setattr("apps.pipelines.operators.balance.draw_uniform", lambda group, options: 0.5)
    usual, rare = judge(run, (0.0, 1.0), (0.0, 0.25))
    assert (
        usual.reason
        == "balance: success 0.4 to 0.6 makes up 80% of the last 10 groups; 25% of these are kept"
    )
    assert rare.state == Group.State.ADMITTED and list(groups_match_their_counters()) == []
    [later] = judge(run, (0.0, 1.0))
    assert len(told(later, attribute="success").before) == 12


def test_balance_drops_nothing_at_the_start_of_a_run(new_run, judge):
    run = new_run(
        pipeline=[{"operator": "balance", "options": {"attribute": "length", "max_share": 0.1}}]
    )
    groups = judge(run, *[(0.0, 1.0)] * 4)
    assert {group.state for group in groups} == {Group.State.ADMITTED} and list(
        groups_match_their_counters()
    ) == []
    assert dry_run(run, [OperatorChoice(operator="balance")]).after == (4, 8)
