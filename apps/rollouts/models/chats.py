"""Chats: conversations of people with a weight version or a model, outside any training.

An explorer claims each turn under a lease, as it claims groups, so no web request waits for an
answer. Chats are not rollouts: no run learns from them, and no rater sees them.
"""

import random
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

from django.conf import settings
from django.db import models, transaction
from django.db.models import Exists, F, Q
from django.db.models.functions import Coalesce, Now

from apps.accounts.locking import lock_one, lock_rows
from apps.accounts.models import User
from apps.accounts.public_text import ReasonField
from apps.leases.lease import Claim, WorkerLease, WorkerLeaseQuerySet
from apps.policies.models import Policy
from apps.rollouts.models.rollouts import storable_output
from apps.runs.models import NotPossible, Run, WeightVersion, Worker
from apps.streaming import worker_notifications

COLDEST = 0.01  # as good as greedy: the most likely token, except for ties
MAX_TOKENS = 4096
MAX_TEXT_LENGTH = 20_000  # characters of one message
MAX_TURNS = 100
MAX_ATTEMPTS = 3


class ChatSubject(NamedTuple):
    """What is asked, by its id: a weight version, or a model itself; the other one is None."""

    version: int | None
    policy: int | None


class Comparison(models.Model):
    """The same prompts answered by two versions of a run, with equal sampling settings and seeds.

    Each answer is a chat of one turn.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="comparisons")
    one = models.ForeignKey(WeightVersion, on_delete=models.CASCADE, related_name="+")
    other = models.ForeignKey(WeightVersion, on_delete=models.CASCADE, related_name="+")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    temperature = models.FloatField()
    max_tokens = models.PositiveIntegerField()
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"comparison {self.pk}"

    @classmethod
    @transaction.atomic
    def begin(
        cls,
        one: WeightVersion,
        other: WeightVersion,
        by: User,
        prompts: list[list[dict]],
        temperature: float,
        max_tokens: int,
    ) -> "Comparison":
        """Start a comparison: ask both versions all of these prompts (a list of messages each).

        Raises NotPossible where a weight folder is gone.
        """
        comparison = cls.objects.create(
            run=one.run, one=one, other=other, by=by, temperature=temperature, max_tokens=max_tokens
        )
        for place, prompt in enumerate(prompts):
            seed = random.randrange(2**31)
            for version in (one, other):
                chat = Chat.objects.create(
                    weight_version=version, by=by, comparison=comparison, place=place
                )
                chat.ask(prompt, temperature, max_tokens, seed)
        return comparison


class Chat(models.Model):
    """One person's conversation with one version or model, or one cell of a comparison."""

    weight_version = models.ForeignKey(
        WeightVersion, null=True, on_delete=models.CASCADE, related_name="chats"
    )
    policy = models.ForeignKey(
        Policy,
        null=True,
        on_delete=models.CASCADE,
        related_name="chats",
        help_text="The model itself, where no version of a run is asked.",
    )
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    system = models.TextField(blank=True, help_text="System message; empty for none.")
    comparison = models.ForeignKey(
        Comparison, null=True, on_delete=models.CASCADE, related_name="chats"
    )
    place = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="Index of the prompt in the comparison."
    )
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(weight_version=None, policy__isnull=False)
                | Q(weight_version__isnull=False, policy=None),
                name="a_chat_has_a_version_or_a_model",
            )
        ]
        indexes = [
            models.Index(
                fields=["weight_version", "by", "-id"],
                name="chats_of_a_person",
                condition=Q(comparison=None),
            )
        ]

    def __str__(self) -> str:
        return f"chat {self.pk}"

    @classmethod
    @transaction.atomic
    def try_prompt(
        cls,
        policy: Policy,
        by: User,
        prompt: list[dict],
        temperature: float,
        max_tokens: int,
    ) -> "Chat":
        """Ask a model itself; the chat takes the place of the person's earlier one with it.

        Raises NotPossible while that one is still being answered.
        """
        if not lock_rows(Policy.objects.filter(pk=policy.pk)):
            raise NotPossible("the model was deleted")
        earlier = cls.objects.filter(policy=policy, by=by)
        if ChatTurn.objects.open().filter(chat__in=earlier).exists():
            raise NotPossible(
                "the reply to your last prompt is still being generated: stop it, or wait until it"
                " ends"
            )
        earlier.delete()
        chat = cls.objects.create(policy=policy, by=by)
        chat.ask(prompt, temperature, max_tokens)
        return chat

    @property
    def current_turns(self) -> models.QuerySet:
        """Return the chat's turns in order, without those that were replaced by a new attempt."""
        return self.turns.filter(is_replaced=False).order_by("number", "pk")

    @transaction.atomic
    def ask(
        self, prompt: list[dict], temperature: float, max_tokens: int, seed: int | None = None
    ) -> "ChatTurn":
        """Add a turn: these messages, then the policy's answer.

        Raises NotPossible while another turn is open, or when no turn is possible.
        """
        locked = self._locked()
        last = locked.current_turns.last()
        if last and last.is_open:
            raise NotPossible(
                "the last reply is still being generated: stop it, or wait until it ends"
            )
        if last and last.number + 1 >= MAX_TURNS:
            raise NotPossible(f"a chat has at most {MAX_TURNS} turns: start a new one")
        return locked._add(last.number + 1 if last else 0, prompt, temperature, max_tokens, seed)

    @transaction.atomic
    def ask_again(self, temperature: float, max_tokens: int) -> "ChatTurn":
        """Ask for another answer to the last turn; the earlier turn is kept and marked as replaced.

        Raises NotPossible.
        """
        locked = self._locked()
        last = locked.current_turns.last()
        if last is None or last.is_open:
            raise NotPossible("there is no finished reply to generate again")
        ChatTurn.objects.filter(pk=last.pk).update(is_replaced=True)
        return locked._add(last.number, last.prompt, temperature, max_tokens)

    def _locked(self) -> "Chat":
        return lock_one(Chat.objects.filter(pk=self.pk).select_related("weight_version"))

    def _add(
        self,
        number: int,
        prompt: list[dict],
        temperature: float,
        max_tokens: int,
        seed: int | None = None,
    ) -> "ChatTurn":
        version = self.weight_version
        if version is not None and not version.has_folder:
            raise NotPossible(
                f"version {version.version} is {version.state}: its files are not available"
            )
        seed = random.randrange(2**31) if seed is None else seed
        transaction.on_commit(lambda: worker_notifications.notify_workers("explore"), robust=True)
        return self.turns.create(
            number=number, prompt=prompt, temperature=temperature, max_tokens=max_tokens, seed=seed
        )


class ChatTurnQuerySet(WorkerLeaseQuerySet["ChatTurn"]):
    def open(self) -> "ChatTurnQuerySet":
        return self.filter(state__in=ChatTurn.OPEN)

    def due(self) -> "ChatTurnQuerySet":
        """Return the open turns that an explorer may claim."""
        return self.open().free()

    def held(self, claims: Iterable[Claim]) -> "ChatTurnQuerySet":
        return super().held(claims).open()

    def claim(
        self, subject: ChatSubject, owner: str, seconds: float, worker: Worker
    ) -> list["ChatTurn"]:
        """Claim all due turns of these weights until the lease ends.

        Each claim gets a new fence.
        """
        weights = {"chat__weight_version": subject.version, "chat__policy": subject.policy}
        turns = self.due().filter(**weights)
        may_take = ~Exists(Worker.objects.told_to_take_nothing(owner))
        begun: dict[str, Any] = {
            "state": ChatTurn.State.LOADING,
            "reply": "",
            "tokens": 0,
            "worker": worker,
        }
        return turns.filter(may_take).claim_rows(
            owner, seconds, attempts=F("attempts") + 1, **begun
        )


class ChatTurn(WorkerLease):
    """A person's message and the policy's answer to it, during and after generation."""

    class State(models.TextChoices):
        WAITING = "waiting", "waiting for an engine"
        LOADING = "loading", "loading weights"
        WRITING = "writing", "writing"
        DONE = "done", "done"
        STOPPED = "stopped", "stopped"
        FAILED = "failed", "failed"

    OPEN = (State.WAITING, State.LOADING, State.WRITING)
    # A reply need not start again because the database was away for longer than a lease.
    OUTLIVES_LEASE = True

    chat = models.ForeignKey(Chat, on_delete=models.CASCADE, related_name="turns")
    number = models.PositiveSmallIntegerField(help_text="Index, from 0.")
    prompt = models.JSONField(help_text="Messages between the previous turns and this reply.")
    temperature = models.FloatField()
    max_tokens = models.PositiveIntegerField()
    seed = models.PositiveIntegerField(help_text="Seed for sampling.")
    state = models.CharField(max_length=7, choices=State.choices, default=State.WAITING)
    reply = models.TextField(blank=True, help_text="The reply so far.")
    tokens = models.PositiveIntegerField(default=0)
    stop_reason = models.CharField(
        max_length=10,
        blank=True,
        help_text="stop: ended by the policy; length: truncated; abort: stopped by a person.",
    )
    reason = ReasonField(max_length=500, blank=True, help_text="Why the reply failed.")
    is_replaced = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Replaced by a retry; no longer part of the chat.",
    )
    stop_wanted = models.BooleanField(default=False, db_default=False)
    worker = models.ForeignKey(Worker, null=True, on_delete=models.SET_NULL, related_name="+")
    attempts = models.PositiveSmallIntegerField(default=0, db_default=0)
    requested_at = models.DateTimeField(db_default=Now())
    begun_at = models.DateTimeField(null=True, help_text="When the first token was generated.")
    ended_at = models.DateTimeField(null=True)

    objects: ClassVar = ChatTurnQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["chat", "number"],
                condition=Q(is_replaced=False),
                name="one_chat_turn_per_number",
            ),
            models.CheckConstraint(
                condition=~Q(state="failed") | ~Q(reason=""), name="a_failed_turn_says_why"
            ),
        ]
        indexes = [
            # For explorers: the oldest open turn.
            models.Index(
                fields=["id"],
                name="open_chat_turns",
                condition=Q(state__in=["waiting", "loading", "writing"]),
            ),
        ]

    def __str__(self) -> str:
        return f"turn {self.number} of chat {self.chat_id}"

    @property
    def is_open(self) -> bool:
        return self.state in self.OPEN

    @property
    def messages(self) -> list[dict]:
        """Return all messages that the policy sees before this answer."""
        messages = [{"role": "system", "content": self.chat.system}] if self.chat.system else []
        for turn in self.chat.current_turns.filter(number__lt=self.number):
            messages += [*turn.prompt, {"role": "assistant", "content": turn.reply}]
        return [*messages, *self.prompt]

    def wish_to_stop(self) -> None:
        """Stop the turn at once when no explorer holds it.

        Otherwise ask its explorer to stop it.
        """
        free = ChatTurn.objects.due().filter(pk=self.pk)
        if not free.update(state=self.State.STOPPED, stop_reason="abort", ended_at=Now()):
            ChatTurn.objects.open().filter(pk=self.pk).update(stop_wanted=True)
            worker_notifications.notify_workers("explore")

    # -- the explorer's side

    def begin(self) -> bool:
        """Record that the engine has started on this turn.

        Return whether the turn is still ours.
        """
        return bool(self.held().update(state=self.State.WRITING))

    def write(self, text: str, tokens: int) -> bool:
        """Save the answer so far; return whether the turn is still ours."""
        columns = {"state": self.State.WRITING, "reply": storable_output(text), "tokens": tokens}
        if self.begun_at is None:
            self.begun_at = columns["begun_at"] = Now()
        return bool(self.held().update(**columns))

    def end(
        self, state: str, text: str = "", tokens: int = 0, stop_reason: str = "", reason: str = ""
    ) -> bool:
        """Close the turn with its answer or failure; return whether it was still ours."""
        columns = {
            "reply": storable_output(text),
            "tokens": tokens,
            "stop_reason": stop_reason[:10],
            "reason": reason[:500],
        }
        if tokens:  # a short answer may arrive whole
            columns["begun_at"] = Coalesce("begun_at", Now())
        return self.release(state=state, ended_at=Now(), **columns)

    def fail(self, reason: str) -> bool:
        return self.end(self.State.FAILED, reason=reason or "no reason was given")

    def put_back(self) -> None:
        """Give up the lease, so that another explorer may claim the turn at once."""
        self.release(state=self.State.WAITING, begun_at=None, reply="", tokens=0)

    def end_if_worn_out(self) -> bool:
        if self.attempts <= MAX_ATTEMPTS:
            return False
        self.fail(f"{MAX_ATTEMPTS} explorers stopped while writing the reply")
        return True
