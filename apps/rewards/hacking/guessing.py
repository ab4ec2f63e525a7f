"""Tasks whose answer is guessed without thinking (Kimi k1.5, arXiv 2501.12599, section 2.1): they pay for luck, and teach nothing.

Kimi drops a task whose answer a model that may not reason gets right within N = 8 tries.
"""

from apps.rewards.hacking.rows import Finding, Seen, newest
from apps.runs.hacking import Hacking

TITLE = "Tasks are guessed without thinking"
TRIES = 8
MOST = 5_000  # tasks that a finding names


def look(seen: Seen, options: Hacking) -> Finding | None:
    """Tasks among those checked that were right in a try."""
    easy = sorted(pk for pk, guess in seen.guesses.items() if guess.right)
    if not easy:
        return None
    tries = max(seen.guesses[pk].tries for pk in easy)
    words = (
        f"{len(easy)} of {len(seen.guesses)} tasks that were checked were guessed right in one of {tries} tries without thinking. "
        "A reward for them is luck, whatever the reply says."
    )
    rollouts = newest([row.rollout for row in seen.rows if row.task in set(easy)])
    return Finding(
        words, {"guessed": len(easy), "checked": len(seen.guesses), "tries": tries}, rollouts=rollouts, tasks=easy[:MOST]
    )
