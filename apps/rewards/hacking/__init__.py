"""Detectors of reward hacking, one module each.

A detector is a pure function: the newest replies of a run (`rows.JudgedReplies`) and the run's
thresholds in, a `Finding` or None out. It proves nothing: a finding is a suspicion, and people look
at a sample of the replies behind it.
"""

from apps.rewards.hacking import (
    answers,
    divergence,
    formatting,
    guessing,
    judging,
    leaking,
    length,
    repetition,
    sameness,
)

# By the name under which a suspicion is kept.
DETECTORS = {
    "divergence": divergence,
    "repetition": repetition,
    "same_reply": sameness,
    "length": length,
    "format_only": formatting,
    "leak": leaking,
    "many_answers": answers,
    "to_judge": judging,
    "guessed": guessing,
}
TITLES = {kind: module.TITLE for kind, module in DETECTORS.items()}
