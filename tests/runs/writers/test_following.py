"""Only steps that the target does not have yet are written, complete and in order."""

import sys
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from apps.runs.writers.contract import Step
from apps.runs.writers.following import hand_over


class Memory:
    """A target that loses everything after `keeps` steps, like one that was killed."""

    def __init__(self, keeps: int = 10_000) -> None:
        self.kept: list[Step] = []
        self.keeps = keeps

    def last_step(self) -> int:
        return self.kept[-1].number if self.kept else 0

    def write(self, steps: list[Step]) -> None:
        self.kept += steps[: self.keeps - len(self.kept)]


def test_each_step_is_written_once_and_complete(measured):
    target = Memory()
    run = measured(1, 2, 3)
    assert [hand_over(run, target), hand_over(run, target)] == [3, 0]
    assert hand_over(measured(4), target) == 1
    assert [(s.number, s.version, s.values["kl"]) for s in target.kept] == [
        (1, 0, 0.01),
        (2, 1, 0.02),
        (3, 1, 0.03),
        (4, 2, 0.04),
    ]
    assert target.kept[0].metrics == {"kl": 0.01, "reward_mean": 1 / 7, "weight_version": 0.0}


def test_steps_that_the_target_lost_are_written_again(measured):
    target = Memory(keeps=2)
    run = measured(1, 2, 3, 4)
    hand_over(run, target)
    target.keeps = 10
    hand_over(run, target)
    assert [step.number for step in target.kept] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("to", "option"),
    [("tensorboard", "--folder"), ("mlflow", "--uri"), ("wandb", "--wandb-project")],
)
def test_error_contains_the_missing_option(measured, to, option):
    with pytest.raises(CommandError, match=f"^{option}"):
        call_command("metrics", "write", measured(1).slug, "--target", to)


@pytest.mark.parametrize(
    ("to", "options"),
    [
        ("tensorboard", ["--folder", "x"]),
        ("mlflow", ["--uri", "file:x"]),
        ("wandb", ["--wandb-project", "x", "--offline"]),
    ],
)
def test_without_its_package_the_command_says_how_to_install_it(
    measured, to, options, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in {to, *(name for name in sys.modules if name.partition(".")[0] == to)}:
        monkeypatch.setitem(
            sys.modules, name, None
        )  # makes the import fail, as if the package were not installed
    with pytest.raises(CommandError, match=f"not installed: run scripts/setup --with {to}"):
        call_command(
            "metrics", "write", measured(1).slug, "--target", to, *options, stdout=StringIO()
        )
    assert list(tmp_path.iterdir()) == []
