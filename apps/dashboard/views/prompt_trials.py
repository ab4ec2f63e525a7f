"""Try a prompt on a model itself: what its page shows of the question and of the reply so far."""

from dataclasses import dataclass

from apps.accounts.models import User
from apps.dashboard.views.chatting import (
    TEMPERATURE,
    TOKENS,
    Question,
    explorer_is_there,
    turn_seconds,
    waiting_words,
)
from apps.policies.models import Policy
from apps.rollouts.models import Chat, ChatTurn


@dataclass(frozen=True)
class PromptTrial:
    """A person's latest prompt to a model, and the reply so far."""

    turn: ChatTurn

    @property
    def system(self) -> str:
        first = self.turn.prompt[0]
        return first["content"] if first["role"] == "system" else ""

    @property
    def text(self) -> str:
        return self.turn.prompt[-1]["content"]

    @property
    def seconds(self) -> float | None:
        return turn_seconds(self.turn)

    @property
    def waits(self) -> tuple[str, str]:
        """Return what the reply waits for, and what to do about it ("": nothing)."""
        return waiting_words(self.turn, None, explorer_is_there())


def load_prompt_trial(policy: Policy, user: User) -> PromptTrial | None:
    """Return the user's own trial; nobody else may see it."""
    turns = ChatTurn.objects.filter(chat__policy=policy, chat__by=user, is_replaced=False)
    turn = turns.select_related("worker").order_by("pk").last()
    return PromptTrial(turn) if turn else None


def initial_prompt(trial: PromptTrial | None) -> dict[str, object]:
    """Return the form's values: those of the last trial, so that it is easily repeated."""
    if trial is None:
        return {"temperature": f"{TEMPERATURE:g}", "max_tokens": TOKENS}
    turn = trial.turn
    written = {"text": trial.text, "system": trial.system}
    return {**written, "temperature": f"{turn.temperature:g}", "max_tokens": turn.max_tokens}


def start_prompt_trial(policy: Policy, user: User, form: Question) -> Chat:
    """Ask the model what a valid form says. Raises NotPossible."""
    data = form.cleaned_data
    text = data["text"].replace("\r\n", "\n")
    system = data["system"].replace("\r\n", "\n").strip()
    prompt = [{"role": "system", "content": system}] if system else []
    prompt.append({"role": "user", "content": text})
    return Chat.try_prompt(policy, user, prompt, data["temperature"], data["max_tokens"])
