"""Titles of the alert rules, and who may see the alerts of each (apps.runs.blind_review)."""

TITLES = {
    "no_progress": "No progress",
    "starvation": "Starvation",
    "nothing_learned": "Nothing learned",
    "not_finite": "Steps not finite",
    "kl": "KL too large",
    "agreement": "Reward without agreement",
    "suspected": "Suspected reward hacking",
    "entropy": "Entropy collapse",
    "behaviour_gap": "Growing behaviour gap",
    "unacknowledged": "Weights not served",
    "breaker": "Environment failing",
    "disk": "Disk nearly full",
    "silence": "No workers",
    "lost_worker": "Worker lost",
    "control_worker_late": "Background jobs late",
    "budget": "Budget",
}
# These reveal neither ratings nor the weight version of an answer.
TO_ALL = (
    "no_progress",
    "starvation",
    "breaker",
    "disk",
    "silence",
    "lost_worker",
    "control_worker_late",
    "budget",
)
AS_JUDGED = (
    "nothing_learned",
    "not_finite",
    "kl",
    "entropy",
    "behaviour_gap",
    "unacknowledged",
)
# A rater who knew would look for it.
TO_STEERERS = ("agreement", "suspected")
