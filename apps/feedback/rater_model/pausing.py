"""When the rater model is not to be believed any more, the run stops until a person has looked."""

from apps.feedback.models import RaterModel
from apps.feedback.rater_model.audits import CONTENT, GREEN_FROM, Light
from apps.feedback.rater_model.learner import RIDGE
from apps.runs.models import NotPossible, Run

STOPPING = ("over_prediction", "turned")  # alarms that pause; the others ask for something else


def pause_if_alarming(run: Run) -> bool:
    """Pause the run when its newest model has become alarming; one that was so before and was resumed goes on."""
    if not run.settings.people.rater_model.pause_on_red:
        return False
    models = RaterModel.objects.filter(run=run, kind=RIDGE).exclude(figures={}).order_by("-number")
    newest = list(models.values_list("figures", flat=True)[:2])
    reasons = why_alarming(newest[0]) if newest else {}
    before = why_alarming(newest[1]) if len(newest) > 1 else {}
    new = [words for kind, words in reasons.items() if kind not in before]
    if not new:
        return False
    try:
        run.pause(reason="; ".join(new)[:500])
    except NotPossible:  # somebody paused or stopped it meanwhile
        return False
    run.topic.record("rater_model_alarmed", reasons=reasons)
    return True


def why_alarming(figures: dict) -> dict[str, str]:
    """Reasons to pause by kind.

    While people are content, replies differ by chance, and ordering them rightly means nothing; and a share whose interval
    reaches to green may be red by chance, too: the light shows it, the run goes on.
    """
    found = {kind: words for kind, words in figures.get("alarms", {}).items() if kind in STOPPING}
    said = figures.get("said")
    is_content = said is not None and said >= CONTENT
    if figures.get("light") == Light.RED and figures["accuracy"]["high"] < GREEN_FROM and not is_content:
        share = figures["accuracy"]["share"]
        found["red"] = f"The rater model orders only {share:.0%} of fresh pairs as people do. Ask 10 audits, then resume."
    return found
