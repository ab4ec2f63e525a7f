"""The rules by name: their titles, and who may be told what they say (apps.runs.blindness)."""

TITLES = {
    "no_progress": "No progress",
    "starvation": "Starvation",
    "nothing_learned": "Nothing learned",
    "not_finite": "Updates not finite",
    "kl": "KL too large",
    "agreement": "Reward without agreement",
    "suspected": "Suspected of hacking",
    "entropy": "Entropy collapse",
    "unacknowledged": "Weights not served",
    "breaker": "Environment failing",
    "disk": "Disk nearly full",
    "silence": "Workers gone",
    "lost_worker": "Worker lost",
    "control_behind": "Background jobs late",
    "budget": "Budget",
}
# Nothing of what was judged, or by which weights, is in these.
TO_ALL = (
    "no_progress",
    "starvation",
    "breaker",
    "disk",
    "silence",
    "lost_worker",
    "control_behind",
    "budget",
)
AS_JUDGED = ("nothing_learned", "not_finite", "kl", "entropy", "unacknowledged")
# A rater who knew would look for it.
TO_STEERERS = ("agreement", "suspected")
