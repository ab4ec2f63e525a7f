"""Export of an episode for its agent: every turn with its reward and, once written, its tokens."""

from apps.environments.agents.answers import completion_id
from apps.environments.models import Episode, EpisodeTurn
from apps.rollouts.payload import Tokens


def session_document(episode: Episode) -> dict:
    rollout = episode.required_rollout
    tokens = rollout.tokens_if_kept
    turns = [
        _turn(turn, tokens) for turn in episode.seen.prefetch_related("feedback").order_by("number")
    ]
    return {
        "session_id": episode.key or str(episode.pk),
        "episode": episode.pk,
        "state": episode.state,
        "reason": episode.reason,
        "seed": episode.seed,
        "arrays_released_at": released_at.isoformat()
        if (released_at := rollout.arrays_released_at)
        else None,
        "weight_versions": (
            [rollout.first_version, rollout.last_version] if rollout.state == "finished" else None
        ),
        "interactions": turns,
    }


def _turn(turn: EpisodeTurn, tokens: Tokens | None) -> dict:
    feedback = [
        {
            "user": word.person,
            "version": word.version,
            "score": word.value,
            "correction": word.correction,
            "is_late": word.is_late,
        }
        for word in turn.feedback.all()
    ]
    return {
        "interaction_id": completion_id(turn) if turn.answered_at else None,
        "messages": turn.observation,
        "answer": turn.action if turn.answered_at else None,
        "reward": turn.reward,
        "late_reward": turn.late_reward,
        "weight_version": turn.weight_version,
        "feedback": feedback,
        **_tokens(turn, tokens),
    }


def _tokens(turn: EpisodeTurn, tokens: Tokens | None) -> dict:
    """Return the prompt, sampled tokens and their logprobs, in nats, of a turn.

    All are null as long as the rollout is not written, and after its arrays were deleted.
    """
    if tokens is None or turn.first is None:
        return {"prompt_ids": None, "token_ids": None, "logprobs": None}
    span = slice(turn.first, turn.first + turn.tokens)
    return {
        "prompt_ids": [*tokens.prompt_ids, *tokens.completion_ids[: turn.first]],
        "token_ids": list(tokens.completion_ids[span]),
        "logprobs": [float(value) for value in tokens.logprobs[span]],
    }
