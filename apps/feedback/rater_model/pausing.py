"""Pause a run whose rater model is no longer reliable, until a person has looked at it."""

from apps.feedback.models import RaterModel
from apps.feedback.rater_model.audits import CONTENT, GREEN_FROM, Light
from apps.feedback.rater_model.learner import RIDGE
from apps.runs.models import NotPossible, Run

STOPPING = ("over_prediction", "turned")  # alarms that pause the run; the others only warn


def pause_if_alarming(run: Run) -> bool:
    """Pause the run if its newest model is alarming, once per fit.

    A person who resumes the run has accepted it, until another fit is alarming.
    """
    section = run.settings.people.rater_model
    if section is None or not section.pause_on_red:
        return False
    models = list(
        RaterModel.objects.filter(run=run, kind=RIDGE).exclude(metrics={}).order_by("-number")[:2]
    )
    if not models or models[0].metrics.get("has_paused"):
        return False
    reasons = why_alarming(models[0].metrics)
    before = why_alarming(models[1].metrics) if len(models) > 1 else {}
    new = [words for kind, words in reasons.items() if kind not in before]
    if not new:
        return False
    try:
        run.pause(reason="; ".join(new)[:500])
    except NotPossible:  # somebody paused or stopped the run meanwhile
        return False
    RaterModel.objects.filter(pk=models[0].pk).update(
        metrics=models[0].metrics | {"has_paused": True}
    )
    run.topic.record("rater_model_alarmed", reasons=reasons)
    return True


def why_alarming(metrics: dict) -> dict[str, str]:
    """Return reasons to pause, by kind.

    While people are content, replies differ by chance, and their right order means nothing. And a
    share whose interval reaches into the good range may be low by chance: then the page warns, and
    the run continues.
    """
    reasons = {kind: words for kind, words in metrics.get("alarms", {}).items() if kind in STOPPING}
    people_mean = metrics.get("human_mean")
    is_content = people_mean is not None and people_mean >= CONTENT
    if (
        metrics.get("light") == Light.RED
        and metrics["accuracy"]["high"] < GREEN_FROM
        and not is_content
    ):
        share = metrics["accuracy"]["share"]
        reasons["red"] = (
            f"The rater model orders only {share:.0%} of fresh pairs as people do. Ask 10 audits,"
            " then resume."
        )
    return reasons
