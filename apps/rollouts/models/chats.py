"""Conversations with a weight version: what people ask it, outside of any learning, and what it answers.

A turn is a row that an explorer takes, under a lease, as it takes groups: no request of the web's waits for it. Nothing said
here is a rollout: no run learns from it, and no rater sees it.
"""

import random

from django.conf import settings
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Coalesce, Now

from apps.accounts.locking import lock_one
from apps.accounts.models import User
from apps.accounts.public_text import ReasonField
from apps.rollouts.models.rollouts import shown
from apps.runs.models import MAY_TAKE, NotPossible, Run, WeightVersion, Worker, after
from apps.streaming import bells

COLDEST = 0.01  # as good as greedy: the likeliest token, but for ties
MOST_TOKENS = 4096
LONGEST_TEXT = 20_000  # characters that a person says at once
MOST_TURNS = 100
MOST_ATTEMPTS = 3


class Comparison(models.Model):
    """The same prompts, answered by two versions of a run with the same knobs and seeds: chats of one turn each."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="comparisons")
    one = models.ForeignKey(WeightVersion, on_delete=models.CASCADE, related_name="+")
    other = models.ForeignKey(WeightVersion, on_delete=models.CASCADE, related_name="+")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
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
        cls, one: WeightVersion, other: WeightVersion, by: User, prompts: list[list[dict]], temperature: float, max_tokens: int
    ) -> "Comparison":
        """Ask both versions all of these prompts (messages each). Raises NotPossible where a folder is gone."""
        made = cls.objects.create(run=one.run, one=one, other=other, by=by, temperature=temperature, max_tokens=max_tokens)
        for place, prompt in enumerate(prompts):
            seed = random.randrange(2**31)
            for version in (one, other):
                chat = Chat.objects.create(weight_version=version, by=by, comparison=made, place=place)
                chat.ask(prompt, temperature, max_tokens, seed)
        return made


class Chat(models.Model):
    """One person's conversation with one version, or one cell of a comparison."""

    weight_version = models.ForeignKey(WeightVersion, on_delete=models.CASCADE, related_name="chats")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    system = models.TextField(blank=True, help_text="Said before everything else; empty says nothing.")
    comparison = models.ForeignKey(Comparison, null=True, on_delete=models.CASCADE, related_name="chats")
    place = models.PositiveSmallIntegerField(default=0, db_default=0, help_text="Of its prompt in the comparison.")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-pk"]
        indexes = [models.Index(fields=["weight_version", "by", "-id"], name="chats_of_a_person", condition=Q(comparison=None))]

    def __str__(self) -> str:
        return f"chat {self.pk}"

    @property
    def said(self) -> models.QuerySet:
        """Its turns in order, without those that were asked again."""
        return self.turns.filter(is_replaced=False).order_by("number", "pk")

    @transaction.atomic
    def ask(self, prompt: list[dict], temperature: float, max_tokens: int, seed: int | None = None) -> "ChatTurn":
        """A further turn: these messages, then the policy's answer. Raises NotPossible while one is open, or none can be."""
        locked = self._locked()
        last = locked.said.last()
        if last and last.is_open:
            raise NotPossible("the last answer is still being written: stop it, or wait for its end")
        if last and last.number + 1 >= MOST_TURNS:
            raise NotPossible(f"a conversation has at most {MOST_TURNS} turns: begin a new one")
        return locked._add(last.number + 1 if last else 0, prompt, temperature, max_tokens, seed)

    @transaction.atomic
    def ask_again(self, temperature: float, max_tokens: int) -> "ChatTurn":
        """The last answer once more; the earlier one is kept, and no longer part of it. Raises NotPossible."""
        locked = self._locked()
        last = locked.said.last()
        if last is None or last.is_open:
            raise NotPossible("there is no finished answer to ask for again")
        ChatTurn.objects.filter(pk=last.pk).update(is_replaced=True)
        return locked._add(last.number, last.prompt, temperature, max_tokens)

    def _locked(self) -> "Chat":
        return lock_one(Chat.objects.filter(pk=self.pk).select_related("weight_version"))

    def _add(self, number: int, prompt: list[dict], temperature: float, max_tokens: int, seed: int | None = None) -> "ChatTurn":
        if not self.weight_version.has_folder:
            raise NotPossible(f"version {self.weight_version.version} is {self.weight_version.state}: it has no folder to load")
        seed = random.randrange(2**31) if seed is None else seed
        transaction.on_commit(lambda: bells.ring("explore"), robust=True)
        return self.turns.create(number=number, prompt=prompt, temperature=temperature, max_tokens=max_tokens, seed=seed)


class ChatTurnQuerySet(models.QuerySet):
    def open(self) -> "ChatTurnQuerySet":
        return self.filter(state__in=ChatTurn.OPEN)

    def due(self) -> "ChatTurnQuerySet":
        """What an explorer may take: nobody answers it, or who did has not been heard of for a lease."""
        return self.open().filter(Q(lease_until=None) | Q(lease_until__lt=Now()))

    def claim(self, version: int, owner: str, seconds: float, worker: Worker) -> list["ChatTurn"]:
        """All due turns of this weight version (id), ours until the lease ends. Each claim has another fence."""
        sql = f"""
            WITH due AS MATERIALIZED (
                SELECT t.id FROM rollouts_chatturn t JOIN rollouts_chat c ON c.id = t.chat_id
                WHERE t.state IN ('waiting', 'loading', 'writing') AND c.weight_version_id = %(version)s
                    AND {MAY_TAKE} AND (t.lease_until IS NULL OR t.lease_until < statement_timestamp())
                ORDER BY t.id FOR NO KEY UPDATE OF t SKIP LOCKED)
            UPDATE rollouts_chatturn t SET state = 'loading', lease_owner = %(owner)s, fence = t.fence + 1, said = '', tokens = 0,
                attempts = t.attempts + 1, worker_id = %(worker)s,
                lease_until = statement_timestamp() + %(seconds)s * interval '1 second'
            FROM due WHERE t.id = due.id RETURNING t.*"""
        values = {"version": version, "owner": owner, "seconds": seconds, "worker": worker.pk}
        return list(self.raw(sql, values))


class ChatTurn(models.Model):
    """What a person says, and the answer while and after it is written."""

    class State(models.TextChoices):
        WAITING = "waiting", "waiting for an engine"
        LOADING = "loading", "its weights are being loaded"
        WRITING = "writing", "being written"
        DONE = "done", "done"
        STOPPED = "stopped", "stopped"
        FAILED = "failed", "failed"

    OPEN = (State.WAITING, State.LOADING, State.WRITING)

    chat = models.ForeignKey(Chat, on_delete=models.CASCADE, related_name="turns")
    number = models.PositiveSmallIntegerField(help_text="From 0.")
    prompt = models.JSONField(help_text="Messages that come before the answer, behind those of earlier turns.")
    temperature = models.FloatField()
    max_tokens = models.PositiveIntegerField()
    seed = models.PositiveIntegerField(help_text="Of its draws.")
    state = models.CharField(max_length=7, choices=State.choices, default=State.WAITING)
    said = models.TextField(blank=True, help_text="The answer so far.")
    tokens = models.PositiveIntegerField(default=0)
    stop_reason = models.CharField(max_length=10, blank=True, help_text="stop: it ended by itself; length: cut; abort: stopped.")
    reason = ReasonField(max_length=500, blank=True, help_text="Why it failed.")
    is_replaced = models.BooleanField(default=False, db_default=False, help_text="Asked again: no part of the chat any more.")
    stop_wanted = models.BooleanField(default=False, db_default=False)
    worker = models.ForeignKey(Worker, null=True, on_delete=models.SET_NULL, related_name="+")
    attempts = models.PositiveSmallIntegerField(default=0, db_default=0)
    lease_owner = models.CharField(max_length=80, blank=True)
    lease_until = models.DateTimeField(null=True)
    fence = models.PositiveIntegerField(default=0, db_default=0)
    asked_at = models.DateTimeField(db_default=Now())
    begun_at = models.DateTimeField(null=True, help_text="When its first token was there.")
    ended_at = models.DateTimeField(null=True)

    objects = ChatTurnQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["chat", "number"], condition=Q(is_replaced=False), name="one_chat_turn_per_number"),
            models.CheckConstraint(condition=~Q(state="failed") | ~Q(reason=""), name="a_failed_turn_says_why"),
        ]
        indexes = [
            # Explorers: the oldest that is not over.
            models.Index(fields=["id"], name="open_chat_turns", condition=Q(state__in=["waiting", "loading", "writing"])),
        ]

    def __str__(self) -> str:
        return f"turn {self.number} of chat {self.chat_id}"

    @property
    def is_open(self) -> bool:
        return self.state in self.OPEN

    @property
    def messages(self) -> list[dict]:
        """All that the policy hears before this answer."""
        heard = [{"role": "system", "content": self.chat.system}] if self.chat.system else []
        for turn in self.chat.said.filter(number__lt=self.number):
            heard += [*turn.prompt, {"role": "assistant", "content": turn.said}]
        return [*heard, *self.prompt]

    def wish_to_stop(self) -> None:
        """At once where nobody has begun; else its explorer stops it."""
        free = ChatTurn.objects.due().filter(pk=self.pk)
        if not free.update(state=self.State.STOPPED, stop_reason="abort", ended_at=Now()):
            ChatTurn.objects.open().filter(pk=self.pk).update(stop_wanted=True)
            bells.ring("explore")

    # -- the explorer's side ----------------------------------------------------------------------------------------

    def begin(self) -> bool:
        """Its engine has it, and reads; whether it is still ours."""
        return bool(self._ours().update(state=self.State.WRITING))

    def write(self, text: str, tokens: int) -> bool:
        """The answer so far; whether it is still ours."""
        told = {"state": self.State.WRITING, "said": shown(text), "tokens": tokens}
        if self.begun_at is None:
            self.begun_at = told["begun_at"] = Now()
        return bool(self._ours().update(**told))

    def end(self, state: str, text: str = "", tokens: int = 0, stop_reason: str = "", reason: str = "") -> bool:
        """Whether it was still ours."""
        told = {"said": shown(text), "tokens": tokens, "stop_reason": stop_reason[:10], "reason": reason[:500]}
        if tokens:  # a short answer may come whole, before any of it was written
            told["begun_at"] = Coalesce("begun_at", Now())
        return bool(self._ours().update(state=state, ended_at=Now(), lease_until=None, **told))

    def fail(self, reason: str) -> bool:
        return self.end(self.State.FAILED, reason=reason or "no reason was given")

    def give_back(self) -> None:
        """Another explorer may take it at once."""
        self._ours().update(state=self.State.WAITING, lease_until=None, begun_at=None, said="", tokens=0)

    @classmethod
    def keep(cls, turns: list["ChatTurn"], seconds: float) -> set[int]:
        """Extend the leases of these; the ids of those that are still ours."""
        ours = [turn.pk for turn in turns if turn._ours().update(lease_until=after(seconds))]
        return set(ours)

    def _ours(self) -> ChatTurnQuerySet:
        return ChatTurn.objects.open().filter(pk=self.pk, fence=self.fence)
