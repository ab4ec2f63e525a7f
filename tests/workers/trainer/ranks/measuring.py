"""The results of a host's updates, to compare with those of another."""

from collections.abc import Sequence
from dataclasses import dataclass

import psutil
import torch

from workers.trainer.host import TrainerHost
from workers.trainer.report import StepReport

# Tolerance between metrics of one process and of two, in float32, over six updates.
CLOSE = 1e-6
WEIGHTS = 1e-5
OF_TIME = {"update_seconds"}


@dataclass(frozen=True)
class Course:
    """The updates of a host, and its final weights."""

    reports: list[StepReport]
    weights: dict[str, torch.Tensor]


def course_of(host: TrainerHost, batches: Sequence) -> Course:
    reports = [host.update(batch) for batch in batches]
    return Course(reports, weights_of(host))


def weights_of(host: TrainerHost) -> dict[str, torch.Tensor]:
    model = host.trainer.whole_model()
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def require_alike(
    found: Course, wanted: Course, close: float = CLOSE, but: str = "nothing"
) -> None:
    """Assert that all metrics of all updates, and all weights, match those of another course.

    `but` is the end of the names of weights that are not compared.
    """
    for mine, other in zip(found.reports, wanted.reports, strict=True):
        assert (mine.step, mine.skipped) == (other.step, other.skipped)
        assert mine.metrics.keys() == other.metrics.keys()
        for name in mine.metrics.keys() - OF_TIME:
            gap = abs(mine.metrics[name] - other.metrics[name])
            assert gap <= close * max(1.0, abs(other.metrics[name])), f"{name} at {mine.step}"
    assert found.weights.keys() == wanted.weights.keys()
    compared = {name: tensor for name, tensor in found.weights.items() if not name.endswith(but)}
    for name, tensor in compared.items():
        gap = float((tensor - wanted.weights[name]).abs().max())
        assert gap <= WEIGHTS * close / CLOSE, name


def other_ranks() -> list[psutil.Process]:
    """Return the trainer processes that this process has started."""
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if "workers.trainer.rank" in child.cmdline() and "--parent" in child.cmdline()
    ]
