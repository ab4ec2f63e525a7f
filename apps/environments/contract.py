"""Validate observations by the schema that the environment registered."""

from jsonschema.exceptions import best_match

from apps.environments.errors import CannotPlay
from apps.environments.json_schemas import BadSchema, errors_in
from apps.environments.models import Environment, any_text
from apps.environments.pull.wording import read_observation

MAX_WORDS_LENGTH = 200


def convert_observation(environment: Environment, value: object) -> object:
    """Return an observation in the form of `playing.observe`.

    It must match a registered schema, and is shown as JSON if it is no text. Raises CannotPlay
    (bad_observation), which names the place in it and what is right there.
    """
    schema = environment.observation_schema
    if schema == any_text():
        return value
    try:
        error = best_match(errors_in(schema, value))
    except BadSchema as why:
        raise CannotPlay(
            "bad_observation",
            f"observation: the registered observation_schema cannot be applied: {why}",
        ) from None
    if error is not None:
        place = "".join(
            f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path
        )
        message = (
            f"observation{place}: {error.message[:MAX_WORDS_LENGTH]} (by the observation_schema of "
            "the environment)"
        )
        raise CannotPlay("bad_observation", message)
    return read_observation(value)
