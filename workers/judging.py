"""Judges at work: language models behind OpenAI-compatible addresses are asked, many requests at once, each reply kept.

A service that is slow, away, over its limit or speaks nonsense has not judged: NULL with the reason, never a number.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from apps.environments.pull import addresses, exchanges
from apps.environments.pull.errors import BadAddress, BadStatus, CallFailed
from apps.environments.pull.secrets import secret_of
from apps.rewards import scorers
from apps.rewards.judging.asking import Ask, JudgeOptions, Reply
from apps.rewards.models import JudgeReply
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import Answered, Question
from apps.runs.costs import JUDGE_CALLS, JUDGE_READ, JUDGE_WROTE

AT_ONCE = 16  # requests under way
TRIES = 3
PAUSE_S = 0.5  # before the second try, and twice as long before the third
PASSING = (408, 409, 425, 429, 500, 502, 503, 504)  # statuses that another try may not meet
LONGEST_REPLY = 200_000  # characters


class NoReply(Exception):
    """It did not answer; the message says why."""


def ask_judges(questions: Sequence[Question]) -> list[Answered]:
    """Each question's verdicts, in order, whatever becomes of the services."""
    if not questions:
        return []
    plans = [_planned(question) for question in questions]
    kept = _kept([key for plan in plans for key in plan.keys])
    fresh = {key: (plan.options, ask) for plan in plans for key, ask in zip(plan.keys, plan.asks, strict=True) if key not in kept}
    said = asyncio.run(_ask_all(fresh)) if fresh else {}
    _keep(said)
    paid: set[str] = set()
    return [plan.answered(kept, said, paid) for plan in plans]


def replies_of(options: JudgeOptions, asks: Sequence[Ask]) -> list[Reply]:
    """What this service says to each, in order; what it has said before is not asked again."""
    keys = [_key(options, ask) for ask in asks]
    kept = _kept(keys)
    fresh = {key: (options, ask) for key, ask in zip(keys, asks, strict=True) if key not in kept}
    said = asyncio.run(_ask_all(fresh)) if fresh else {}
    _keep(said)
    return [kept.get(key) or said[key][0] for key in keys]


def kept_replies(options: JudgeOptions, asks: Sequence[Ask]) -> list[Reply | None]:
    """What this service has said to each, in order; nobody is asked."""
    keys = [_key(options, ask) for ask in asks]
    kept = _kept(keys)
    return [kept.get(key) for key in keys]


class _Plan:
    """A question with the requests it takes."""

    def __init__(self, question: Question) -> None:
        self.question, self.scorer = question, scorers.find(question.scorer)
        self.options: JudgeOptions = self.scorer.judge_options(question.options)
        self.own = self.scorer.read_options(question.options)
        self.asks: list[Ask] = self.scorer.ask(question.rollouts, question.task, self.own)
        self.keys = [_key(self.options, ask) for ask in self.asks]

    def answered(self, kept: dict[str, Reply], said: dict[str, tuple[Reply, float]], paid: set[str]) -> Answered:
        """`paid`: requests that are counted already; each is counted once, whoever asked it."""
        replies = [kept.get(key) or said[key][0] for key in self.keys]
        seconds = max((said[key][1] for key in self.keys if key in said), default=0.0)
        used = _used([said[key][0] for key in dict.fromkeys(self.keys) if key in said and key not in paid])
        paid.update(self.keys)
        try:
            verdicts = self.scorer.read(replies, self.question.rollouts, self.question.task, self.own)
        except Exception as error:  # the loop around one unit of work: whatever went wrong belongs to this question
            return replace(_failed(self.question, error), used=used)
        return Answered(self.question, self.scorer.held(verdicts, self.question.rollouts), seconds, used)


@dataclass(frozen=True)
class _Failed:
    """A question whose scorer could not ask; the others are asked all the same."""

    question: Question
    error: Exception
    options: None = None
    asks: Sequence[Ask] = ()
    keys: Sequence[str] = ()

    def answered(self, kept: dict[str, Reply], said: dict[str, tuple[Reply, float]], paid: set[str]) -> Answered:
        return _failed(self.question, self.error)


def _planned(question: Question) -> _Plan | _Failed:
    try:
        return _Plan(question)
    except Exception as error:  # the loop around one unit of work, as above
        return _Failed(question, error)


def _failed(question: Question, error: Exception) -> Answered:
    why = f"scorer {question.scorer}: {type(error).__name__}: {error}"[:300]
    return Answered(question, [Verdict(None, why)] * len(question.rollouts), 0.0)


def _used(replies: Sequence[Reply]) -> dict[str, float]:
    """What these cost that a service answered."""
    told = [reply for reply in replies if reply.text is not None]
    return {
        JUDGE_CALLS: len(told), JUDGE_READ: sum(reply.tokens_in for reply in told),
        JUDGE_WROTE: sum(reply.tokens_out for reply in told),
    }  # fmt: skip


def _key(options: JudgeOptions, ask: Ask) -> str:
    told = [options.address, options.model, options.temperature, options.max_tokens, list(ask.messages), ask.vote]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _kept(keys: Sequence[str]) -> dict[str, Reply]:
    rows = JudgeReply.objects.filter(key__in=set(keys))
    return {row.key: Reply(row.text, "", row.tokens_in, row.tokens_out, is_kept=True) for row in rows}


def _keep(said: dict[str, tuple[Reply, float]]) -> None:
    """Replies only: that none came is tried again the next time. Unreadable ones are kept as well, they were paid for."""
    JudgeReply.objects.bulk_create(
        (
            JudgeReply(key=key, text=reply.text, tokens_in=reply.tokens_in, tokens_out=reply.tokens_out, seconds=seconds)
            for key, (reply, seconds) in said.items()
            if reply.text is not None
        ),
        ignore_conflicts=True,
    )


async def _ask_all(fresh: dict[str, tuple[JudgeOptions, Ask]]) -> dict[str, tuple[Reply, float]]:
    room = asyncio.Semaphore(AT_ONCE)

    async def one(options: JudgeOptions, ask: Ask) -> tuple[Reply, float]:
        async with room:
            began = time.monotonic()
            try:
                reply = await _ask(options, ask)
            except (NoReply, BadAddress, CallFailed) as why:
                reply = Reply(None, f"{options.model}: {why}"[:300])
            return reply, time.monotonic() - began

    replies = await asyncio.gather(*(one(*wanted) for wanted in fresh.values()))
    return dict(zip(fresh, replies, strict=True))


async def _ask(options: JudgeOptions, ask: Ask) -> Reply:
    """Raises NoReply, BadAddress and CallFailed once no further try is left or none would help."""
    address = addresses.parsed(options.address)
    body = {
        "model": options.model,
        "messages": list(ask.messages),
        "temperature": options.temperature,
        "max_tokens": options.max_tokens,
    }
    if options.temperature > 0:
        body["seed"] = ask.vote
    for attempt in range(TRIES):
        try:
            async with asyncio.timeout(options.timeout_s):
                machine = await addresses.resolved(address)
                secret = secret_of("JUDGE_KEYS", address, machine)
                return _reply(await exchanges.asked(address, machine, "POST", "/chat/completions", body, secret))
        except (TimeoutError, CallFailed) as why:
            if attempt == TRIES - 1 or (isinstance(why, BadStatus) and why.status not in PASSING):
                raise NoReply(f"no reply within {options.timeout_s:g} s" if isinstance(why, TimeoutError) else str(why)) from None
        await asyncio.sleep(PAUSE_S * 2**attempt)
    raise AssertionError("the last try either returns or raises")


def _reply(document: dict) -> Reply:
    """Raises NoReply for what is no chat completion."""
    try:
        text, usage = document["choices"][0]["message"]["content"], document.get("usage") or {}
    except (KeyError, IndexError, TypeError):
        raise NoReply("what it answered is no chat completion") from None
    if not isinstance(text, str):
        raise NoReply("its message has no text")
    return Reply(
        text[:LONGEST_REPLY].replace("\0", "\ufffd"), "", _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    )


def _count(usage: object, name: str) -> int:
    value = usage.get(name, 0) if isinstance(usage, dict) else 0
    return value if isinstance(value, int) and 0 <= value < 2**31 else 0
