"""What an environment may say: a text or chat messages, checked, and as the messages a chat template reads."""

from collections.abc import Sequence

from apps.environments.errors import CannotPlay
from apps.environments.models import Environment

Observation = str | list[dict]
ROLES = ("user", "tool", "system")
LONGEST, MOST_MESSAGES = 200_000, 256  # characters of one observation, messages in it
PICTURES = frozenset({"image", "image_url", "input_image"})  # as those who speak of vision call a part of a message
NO_PICTURES = "holds a picture; policies here read text alone, for no engine takes pictures: describe it in words"


def checked(said: object, roles: Sequence[str] = ROLES) -> Observation:
    """The observation as it is kept: a text, or messages of exactly `role`, one of these, and `content`. Raises CannotPlay."""
    if isinstance(said, str):
        texts, kept = [said], said
    else:
        kept = [_message(place, message, roles) for place, message in enumerate(_several(said))]
        texts = [message["content"] for message in kept]
    if sum(map(len, texts)) > LONGEST:
        raise CannotPlay("bad_observation", f"observation: has more than {LONGEST} characters")
    for text in texts:
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise CannotPlay("bad_observation", "observation: has a character that cannot be kept (NUL, or half of a pair)")
    return kept


def _several(said: object) -> list:
    if not isinstance(said, list) or not 0 < len(said) <= MOST_MESSAGES:
        raise CannotPlay("bad_observation", f"observation: must be a text or a list of 1 to {MOST_MESSAGES} messages")
    return said


def _message(place: int, message: object, roles: Sequence[str]) -> dict:
    if isinstance(message, dict) and holds_picture(message.get("content")):
        raise CannotPlay("bad_observation", f"observation[{place}].content: {NO_PICTURES}")
    if not isinstance(message, dict) or set(message) != {"role", "content"} or not isinstance(message["content"], str):
        raise CannotPlay("bad_observation", f"observation[{place}]: must have exactly `role` and `content`, a text")
    if message["role"] not in roles:
        raise CannotPlay("bad_observation", f"observation[{place}].role: must be one of {', '.join(roles)}")
    return {"role": message["role"], "content": message["content"]}


def holds_picture(content: object) -> bool:
    """Whether a message's content, as others write it, is not text alone: such a part is told apart from a mistake."""
    parts = content if isinstance(content, list) else [content]
    return any(isinstance(part, dict) and isinstance(kind := part.get("type"), str) and kind in PICTURES for part in parts)


def checked_reward(environment: Environment, reward: object) -> float | None:
    """The reward as it is kept; None says that there is none (yet). Raises CannotPlay for what no action can earn there."""
    if reward is None:
        return None
    low, high = environment.reward_low, environment.reward_high
    if isinstance(reward, bool) or not isinstance(reward, int | float) or not low <= reward <= high:
        raise CannotPlay("bad_reward", f"reward: must be a number from {low:g} to {high:g}, or null")
    return float(reward)


def messages(said: Observation) -> list[dict]:
    """As chat messages; a bare text is the user's."""
    return [{"role": "user", "content": said}] if isinstance(said, str) else said


def opening(prompt: list[dict], said: Observation) -> list[dict]:
    """What the policy sees first: the task's messages and the first observation. An empty text adds nothing.

    Where both meet as the user's words they are one message: chat templates expect the speakers to alternate.
    """
    if not said:
        return prompt
    first, *rest = messages(said)
    if prompt and prompt[-1]["role"] == first["role"] == "user":
        first = {"role": "user", "content": f"{prompt[-1]['content']}\n\n{first['content']}"}
        prompt = prompt[:-1]
    return [*prompt, first, *rest]


def text_of(said: Observation) -> str:
    """For people to read."""
    return "\n\n".join(message["content"] for message in messages(said))
