"""How one action is to be sampled beyond the run's rules, as far as whoever asks may say: none of it changes which token is drawn
with which probability, so what is learned from it stays unbiased."""

from dataclasses import asdict, dataclass, fields

BEGIN_OF_CALL = "<tool_call>"
END_OF_CALL = "</tool_call>"


@dataclass(frozen=True)
class Wishes:
    """`max_tokens` and `stop`: what ends the action, a number of tokens or the first of these texts. `seed`: of its draws.

    `logprobs`: kept with the action. `raw`: the observation is the bare text that the policy goes on from, without a chat template.
    `one_call`: the action ends with the first tool call in it. `no_calls`: no tool calls are read from it.
    `prefix`: the beginning of its message that the policy does not choose; not trained on.
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
    def of(cls, kept: dict) -> "Wishes":
        return cls(**{**kept, "stop": tuple(kept.get("stop", ()))})

    @property
    def kept(self) -> dict:
        """What differs from no wish at all."""
        usual = {field.name: field.default for field in fields(self)}
        return {name: value for name, value in asdict(self).items() if value != usual[name]}

    @property
    def has_stops(self) -> bool:
        """Whether a text may end the action."""
        return bool(self.stop) or self.one_call

    def is_met_by(self, text: str) -> bool:
        """Whether one of the texts that end the action is in it."""
        return any(stop in text for stop in self.stop) or (self.one_call and END_OF_CALL in text)

    def shown(self, text: str) -> str:
        """The action without the text that ended it, and what follows that. The end of a tool call belongs to it."""
        if self.one_call and END_OF_CALL in text:
            text = text[: text.find(END_OF_CALL) + len(END_OF_CALL)]
        return text[: min((text.find(stop) for stop in self.stop if stop in text), default=len(text))]

    def safe(self, text: str) -> str:
        """What of an unfinished action can be shown: all but what may be the beginning of a text that ends it."""
        if self.is_met_by(text):
            return self.shown(text)
        held = max((n for stop in self.stop for n in range(1, len(stop)) if text.endswith(stop[:n])), default=0)
        return text[: len(text) - held]


NO_WISHES = Wishes()
