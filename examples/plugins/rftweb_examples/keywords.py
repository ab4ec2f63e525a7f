"""Rewards a reply that mentions the keywords of its task (`answer.keywords`)."""

import re

from pydantic import Field

from apps.rewards.scorers import RolloutView, ScorerOptions, TaskView, Verdict

VERSION = 1


class Options(ScorerOptions):
    needed: float = Field(1.0, gt=0, le=1, description="Share of the keywords that earns all.")


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Return the share of the keywords that the reply has, 1 from the needed share on."""
    keywords = task.answer.get("keywords")
    if not isinstance(keywords, list) or not keywords:
        return Verdict(None, "the task does not say its keywords (answer.keywords, a list)")
    words = set(re.findall(r"\w+", rollout.text.lower()))
    missing = [word for word in map(str, keywords) if word.lower() not in words]
    share = 1 - len(missing) / len(keywords)
    details = {"keywords": len(keywords), "missing": missing[:10]}
    if not missing:
        return Verdict(1.0, "it has all keywords", details)
    value = min(1.0, share / options.needed)
    return Verdict(value, f"it lacks {', '.join(missing[:3])}", details)
