"""Validate texts and chat messages as observations, and convert them for chat templates."""

from collections.abc import Mapping, Sequence

from apps.environments.errors import CannotPlay
from apps.environments.models import Environment
from apps.tasksets.messages import (
    NONE_KNOWN,
    BadContent,
    as_texts,
    holds_picture,
    join_contents,
    read_content,
)
from apps.tasksets.messages import content_text as text_in
from apps.tasksets.pictures import EncodedPicture

Observation = str | list[dict]
ROLES = ("user", "tool", "system")
MAX_OBSERVATION_LENGTH = 200_000
MAX_MESSAGES = 256  # characters of one observation, messages in it
NO_PICTURES = "contains a picture, but the policy reads only text: describe it in words"


def check_observation(
    value: object,
    roles: Sequence[str] = ROLES,
    pictures: dict[str, EncodedPicture] | None = None,
    decoded: Mapping[str, EncodedPicture] = NONE_KNOWN,
) -> Observation:
    """Return the observation in stored form. Raises CannotPlay.

    It is a text, or messages with exactly the fields `role`, one of `roles`, and `content`. Its
    pictures are added to `pictures`; None refuses pictures. `decoded` holds pictures that were
    already decoded.
    """
    if isinstance(value, str):
        _require_storable([value])
        return value
    stored = [
        _message(place, message, roles, pictures, decoded)
        for place, message in enumerate(_several(value))
    ]
    _require_storable([text_in(message["content"]) for message in stored])
    return stored


def _require_storable(texts: Sequence[str]) -> None:
    """Raise CannotPlay where texts are too long together, or hold what Postgres cannot store."""
    if sum(map(len, texts)) > MAX_OBSERVATION_LENGTH:
        raise CannotPlay(
            "bad_observation", f"observation: has more than {MAX_OBSERVATION_LENGTH} characters"
        )
    for text in texts:
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise CannotPlay(
                "bad_observation",
                (
                    "observation: contains a character that cannot be stored (NUL or half of a "
                    "surrogate pair)"
                ),
            )


def shows_picture(value: object) -> bool:
    """Tell whether an unvalidated observation contains a picture."""
    return isinstance(value, list) and any(
        isinstance(message, dict) and holds_picture(message.get("content")) for message in value
    )


def _several(value: object) -> list:
    if not isinstance(value, list) or not 0 < len(value) <= MAX_MESSAGES:
        raise CannotPlay(
            "bad_observation",
            f"observation: must be a text or a list of 1 to {MAX_MESSAGES} messages",
        )
    return value


def _message(
    place: int,
    message: object,
    roles: Sequence[str],
    pictures: dict[str, EncodedPicture] | None,
    decoded: Mapping[str, EncodedPicture],
) -> dict:
    where = f"observation[{place}]"
    shows = isinstance(message, dict) and holds_picture(message.get("content"))
    if shows and pictures is None:
        raise CannotPlay("bad_observation", f"{where}.content: {NO_PICTURES}")
    if (
        not isinstance(message, dict)
        or set(message) != {"role", "content"}
        or not (shows or isinstance(message["content"], str))
    ):
        raise CannotPlay(
            "bad_observation", f"{where}: must have exactly `role` and `content`, a text"
        )
    if message["role"] not in roles:
        raise CannotPlay("bad_observation", f"{where}.role: must be one of {', '.join(roles)}")
    if not shows or pictures is None:
        return {"role": message["role"], "content": message["content"]}
    if message["role"] != "user":
        raise CannotPlay(
            "bad_observation", f"{where}.content: only the role user can show pictures"
        )
    try:
        return {
            "role": message["role"],
            "content": read_content(message["content"], pictures, decoded=decoded),
        }
    except BadContent as error:
        raise CannotPlay("bad_observation", f"{where}.content{error.where}: {error.why}") from None


def checked_reward(environment: Environment, reward: object) -> float | None:
    """Return the reward in stored form; None means that there is none (yet).

    Raises CannotPlay for a value that no action can earn in this environment.
    """
    if reward is None:
        return None
    low = environment.reward_low
    high = environment.reward_high
    if isinstance(reward, bool) or not isinstance(reward, int | float) or not low <= reward <= high:
        raise CannotPlay(
            "bad_reward", f"reward: must be a number from {low:g} to {high:g}, or null"
        )
    return float(reward)


def messages(observation: Observation) -> list[dict]:
    """Return the observation as chat messages; a bare text becomes a user message."""
    return (
        [{"role": "user", "content": observation}] if isinstance(observation, str) else observation
    )


def opening(prompt: list[dict], observation: Observation) -> list[dict]:
    """Return the policy's first messages: the task's messages and the first observation.

    An empty text adds nothing. A user message that ends the task and one that begins the
    observation are joined, because chat templates expect the roles to alternate.
    """
    if not observation:
        return prompt
    first, *rest = messages(observation)
    if prompt and prompt[-1]["role"] == first["role"] == "user":
        first = {"role": "user", "content": join_contents(prompt[-1]["content"], first["content"])}
        prompt = prompt[:-1]
    return [*prompt, first, *rest]


def observation_text(observation: Observation) -> str:
    """Return the observation as text for people to read."""
    return "\n\n".join(message["content"] for message in as_texts(messages(observation)))
