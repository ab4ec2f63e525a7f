"""What an environment may say: a text or chat messages, checked, and as the messages a chat template reads."""

from collections.abc import Mapping, Sequence

from apps.environments.errors import CannotPlay
from apps.environments.models import Environment
from apps.tasksets.messages import NONE_KNOWN, BadContent, as_texts, holds_picture, joined, read_content
from apps.tasksets.messages import text_of as text_in
from apps.tasksets.pictures import Encoded

Observation = str | list[dict]
ROLES = ("user", "tool", "system")
LONGEST, MOST_MESSAGES = 200_000, 256  # characters of one observation, messages in it
NO_PICTURES = "holds a picture; the policy that plays here reads text alone: describe it in words"


def checked(
    said: object,
    roles: Sequence[str] = ROLES,
    taken: dict[str, Encoded] | None = None,
    known: Mapping[str, Encoded] = NONE_KNOWN,
) -> Observation:
    """The observation as it is kept: a text, or messages of exactly `role`, one of these, and `content`. Raises CannotPlay.

    Its pictures are added to `taken`; None: pictures are not taken. `known`: those that were read already.
    """
    if isinstance(said, str):
        texts, kept = [said], said
    else:
        kept = [_message(place, message, roles, taken, known) for place, message in enumerate(_several(said))]
        texts = [text_in(message["content"]) for message in kept]
    if sum(map(len, texts)) > LONGEST:
        raise CannotPlay("bad_observation", f"observation: has more than {LONGEST} characters")
    for text in texts:
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise CannotPlay("bad_observation", "observation: has a character that cannot be kept (NUL, or half of a pair)")
    return kept


def shows_picture(said: object) -> bool:
    """Whether an observation from outside, right or wrong, would show one."""
    return isinstance(said, list) and any(isinstance(message, dict) and holds_picture(message.get("content")) for message in said)


def _several(said: object) -> list:
    if not isinstance(said, list) or not 0 < len(said) <= MOST_MESSAGES:
        raise CannotPlay("bad_observation", f"observation: must be a text or a list of 1 to {MOST_MESSAGES} messages")
    return said


def _message(
    place: int, message: object, roles: Sequence[str], taken: dict[str, Encoded] | None, known: Mapping[str, Encoded]
) -> dict:
    where = f"observation[{place}]"
    shows = isinstance(message, dict) and holds_picture(message.get("content"))
    if shows and taken is None:
        raise CannotPlay("bad_observation", f"{where}.content: {NO_PICTURES}")
    if not isinstance(message, dict) or set(message) != {"role", "content"} or not (shows or isinstance(message["content"], str)):
        raise CannotPlay("bad_observation", f"{where}: must have exactly `role` and `content`, a text")
    if message["role"] not in roles:
        raise CannotPlay("bad_observation", f"{where}.role: must be one of {', '.join(roles)}")
    if not shows:
        return {"role": message["role"], "content": message["content"]}
    if message["role"] != "user":
        raise CannotPlay("bad_observation", f"{where}.content: only the user shows pictures")
    try:
        return {"role": message["role"], "content": read_content(message["content"], taken, known=known)}
    except BadContent as error:
        raise CannotPlay("bad_observation", f"{where}.content{error.where}: {error.why}") from None


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
        first = {"role": "user", "content": joined(prompt[-1]["content"], first["content"])}
        prompt = prompt[:-1]
    return [*prompt, first, *rest]


def text_of(said: Observation) -> str:
    """For people to read."""
    return "\n\n".join(message["content"] for message in as_texts(messages(said)))
