"""Sampling options of one action that a caller may set within the run's rules.

None of them changes the probability of any token, so learning from the action stays unbiased.
"""

from dataclasses import asdict, dataclass, fields

BEGIN_OF_CALL = "<tool_call>"
END_OF_CALL = "</tool_call>"


@dataclass(frozen=True)
class ActionSampling:
    """The sampling options of one action.

    - `max_tokens`, `stop`: end the action after so many tokens, or at the first of these texts.
    - `seed`: seed of the action's sampling.
    - `logprobs`: whether they are kept with the action.
    - `raw`: the observation is a bare text that the policy continues, without a chat template.
    - `one_call`: the action ends with its first tool call.
    - `no_calls`: no tool calls are parsed from the action.
    - `prefix`: beginning of the message that the policy does not choose, and is not trained on.
    """

    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    logprobs: bool = False
    raw: bool = False
    one_call: bool = False
    no_calls: bool = False
    prefix: str = ""

    @classmethod
    def of(cls, options: dict) -> "ActionSampling":
        return cls(**{**options, "stop": tuple(options.get("stop", ()))})

    @property
    def changed_options(self) -> dict:
        """Return the options that differ from the defaults."""
        usual = {field.name: field.default for field in fields(self)}
        return {name: value for name, value in asdict(self).items() if value != usual[name]}

    @property
    def has_stops(self) -> bool:
        """Tell whether a text may end the action."""
        return bool(self.stop) or self.one_call

    def is_met_by(self, text: str) -> bool:
        """Tell whether the text contains one of the texts that end the action."""
        return any(stop in text for stop in self.stop) or (self.one_call and END_OF_CALL in text)

    def visible_text(self, text: str) -> str:
        """Return the action without the stop text and what follows it.

        The end of a tool call belongs to the call and stays.
        """
        if self.one_call and END_OF_CALL in text:
            text = text[: text.find(END_OF_CALL) + len(END_OF_CALL)]
        return text[
            : min((text.find(stop) for stop in self.stop if stop in text), default=len(text))
        ]

    def safe(self, text: str) -> str:
        """Return the part of an unfinished action that cannot be the beginning of a stop text."""
        if self.is_met_by(text):
            return self.visible_text(text)
        beginning_length = max(
            (n for stop in self.stop for n in range(1, len(stop)) if text.endswith(stop[:n])),
            default=0,
        )
        return text[: len(text) - beginning_length]


NO_WISHES = ActionSampling()
