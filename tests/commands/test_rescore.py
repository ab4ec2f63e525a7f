"""`manage.py rescore`: scores in its own process, and reports the changes."""

import pytest
from django.core.management import CommandError, call_command

from apps.rewards.models import RescoredReward, Rescoring, Reward
from apps.rollouts.models import Group
from rftweb.management.commands.rescore import steps_in
from workers import scorer_dispatch

pytestmark = pytest.mark.django_db


@pytest.fixture
def stored(run, finish):
    [group] = finish(run, ["12345", "54321"])
    Group.objects.filter(pk=group.pk).update(state=Group.State.JUDGED)
    for rollout in group.rollouts.all():
        Reward.record(rollout, Reward.Source.RULE, "sort", float(rollout.text == "12345"))
    yield run
    scorer_dispatch.grader.cache_clear()


@pytest.fixture
def rewards(tmp_path):
    path = tmp_path / "rewards.yaml"
    path.write_text("rewards:\n  - {scorer: sort, weight: 0.5}\n")
    return path


def test_command_rescores_to_the_end_and_reports_what_changed(stored, rewards, capsys):
    call_command("rescore", stored.slug, rewards=rewards)
    again = Rescoring.objects.get()
    said = capsys.readouterr().out
    assert again.state == "done" and RescoredReward.objects.filter(rescoring=again).count() == 2
    assert (
        f"rescoring {again.pk} of run-0: 2 rollouts" in said
        and "1 lower" in said
        and "1 the same" in said
    )


def test_invalid_option_is_reported_by_field(stored, rewards, tmp_path):
    rewards.write_text("- {scorer: sort, options: {colour: red}}")
    with pytest.raises(CommandError, match=r"rewards\.0\.options\.colour"):
        call_command("rescore", stored.slug, rewards=rewards)
    with pytest.raises(CommandError, match=r"nowhere\.yaml"):
        call_command("rescore", stored.slug, rewards=tmp_path / "nowhere.yaml")
    rewards.write_text("- {scorer: sort}")
    with pytest.raises(CommandError, match="no scored rollouts of run-0 match: steps from 3"):
        call_command("rescore", stored.slug, rewards=rewards, steps="3-")
    with pytest.raises(CommandError, match="limit"):
        call_command("rescore", stored.slug, rewards=rewards, limit=0)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("", {}),
        ("10-20", {"from_step": "10", "to_step": "20"}),
        ("10-", {"from_step": "10"}),
        ("-20", {"to_step": "20"}),
        ("15", {"from_step": "15", "to_step": "15"}),
    ],
)
def test_step_ranges_are_parsed(text, ends):
    assert steps_in(text) == ends


@pytest.mark.parametrize("text", ["-", "a-b", "1-2-3", "1..2"])
def test_invalid_step_range_is_refused(text):
    with pytest.raises(CommandError, match="is not a range of steps"):
        steps_in(text)
