"""Detector: tasks whose answer can be guessed without thinking (Kimi k1.5, section 2.1).

They pay for luck, and teach nothing (arXiv 2501.12599).

Kimi drops a task whose answer a model that may not reason gets right within N = 8 tries.
"""

from apps.rewards.hacking.rows import Finding, JudgedReplies, newest_ids
from apps.runs.hacking import Hacking

TITLE = "Tasks can be guessed without reasoning"
TRIES = 8
MAX_TASKS = 5_000  # tasks that a finding names


def detect(replies: JudgedReplies, options: Hacking) -> Finding | None:
    """Find the checked tasks that were guessed right without thinking."""
    easy = sorted(pk for pk, guess in replies.guesses.items() if guess.right)
    if not easy:
        return None
    tries = max(replies.guesses[pk].tries for pk in easy)
    words = (
        f"{len(easy)} of {len(replies.guesses)} checked tasks were guessed correctly in {tries} "
        "tries without reasoning. Rewards for these tasks may be luck."
    )
    rollouts = newest_ids([row.rollout for row in replies.rows if row.task in set(easy)])
    return Finding(
        words,
        {"guessed": len(easy), "checked": len(replies.guesses), "tries": tries},
        rollouts=rollouts,
        tasks=easy[:MAX_TASKS],
    )
