"""Judge models behind OpenAI-compatible addresses: many requests at once, each reply cached.

A service that is slow, away, over its limit or replies with nonsense gives NULL with the reason,
never a number.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from apps.environments.pull import addresses, exchanges
from apps.environments.pull.errors import BadAddress, BadStatus, CallFailed
from apps.environments.pull.secrets import find_secret
from apps.rewards import scorers
from apps.rewards.judging.asking import Ask, JudgeOptions, Reply
from apps.rewards.models import JudgeReply
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, Question
from apps.runs.costs import JUDGE_CALLS, JUDGE_READ, JUDGE_WROTE

AT_ONCE = 16  # requests in flight
TRIES = 3
PAUSE_S = 0.5  # before the second try, and twice as long before the third
PASSING = (408, 409, 425, 429, 500, 502, 503, 504)  # statuses after which a retry may succeed
MAX_REPLY_LENGTH = 200_000  # characters


class NoReply(Exception):
    """An error for a request without a usable reply; the message says why."""


def ask_judges(questions: Sequence[Question]) -> list[AnsweredQuestion]:
    """Return each question's verdicts, in order, whatever happens at the services."""
    if not questions:
        return []
    plans = [_plan_question(question) for question in questions]
    cached = _load_kept([key for plan in plans for key in plan.keys])
    fresh = {
        key: (plan.options, ask)
        for plan in plans
        if isinstance(plan, _Plan)
        for key, ask in zip(plan.keys, plan.asks, strict=True)
        if key not in cached
    }
    replies = asyncio.run(_ask_all(fresh)) if fresh else {}
    _keep(replies)
    paid: set[str] = set()
    return [plan.answered(cached, replies, paid) for plan in plans]


def ask_judge(options: JudgeOptions, asks: Sequence[Ask]) -> list[Reply]:
    """Return the service's reply to each request, in order.

    Cached replies are not requested again.
    """
    keys = [_key(options, ask) for ask in asks]
    cached = _load_kept(keys)
    fresh = {key: (options, ask) for key, ask in zip(keys, asks, strict=True) if key not in cached}
    replies = asyncio.run(_ask_all(fresh)) if fresh else {}
    _keep(replies)
    return [cached.get(key) or replies[key][0] for key in keys]


def kept_replies(options: JudgeOptions, asks: Sequence[Ask]) -> list[Reply | None]:
    """Return the cached reply to each request, in order; nothing is sent."""
    keys = [_key(options, ask) for ask in asks]
    cached = _load_kept(keys)
    return [cached.get(key) for key in keys]


class _Plan:
    """A question with the requests it takes."""

    def __init__(self, question: Question) -> None:
        self.question, self.scorer = question, scorers.find_scorer(question.scorer)
        self.options: JudgeOptions = self.scorer.judge_options(question.options)
        self.own = self.scorer.read_options(question.options)
        self.asks: list[Ask] = self.scorer.ask(question.rollouts, question.task, self.own)
        self.keys = [_key(self.options, ask) for ask in self.asks]

    def answered(
        self, cached: dict[str, Reply], by_key: dict[str, tuple[Reply, float]], paid: set[str]
    ) -> AnsweredQuestion:
        """Combine the replies into the question's verdicts.

        `paid` holds requests that are counted already; each is counted once, whichever question
        sent it.
        """
        replies = [cached.get(key) or by_key[key][0] for key in self.keys]
        seconds = max((by_key[key][1] for key in self.keys if key in by_key), default=0.0)
        used = _used(
            [
                by_key[key][0]
                for key in dict.fromkeys(self.keys)
                if key in by_key and key not in paid
            ]
        )
        paid.update(self.keys)
        try:
            verdicts = self.scorer.read(
                replies, self.question.rollouts, self.question.task, self.own
            )
        # any error belongs to this question alone
        except Exception as error:
            return replace(_failed(self.question, error), used=used)
        return AnsweredQuestion(
            self.question,
            self.scorer.check_verdicts(verdicts, self.question.rollouts),
            seconds,
            used,
        )


@dataclass(frozen=True)
class _Failed:
    """A question whose scorer could not build its requests; the others are still sent."""

    question: Question
    error: Exception
    keys: Sequence[str] = ()

    def answered(
        self, cached: dict[str, Reply], by_key: dict[str, tuple[Reply, float]], paid: set[str]
    ) -> AnsweredQuestion:
        return _failed(self.question, self.error)


def _plan_question(question: Question) -> _Plan | _Failed:
    try:
        return _Plan(question)
    except Exception as error:  # any error belongs to this request alone
        return _Failed(question, error)


def _failed(question: Question, error: Exception) -> AnsweredQuestion:
    why = f"scorer {question.scorer}: {type(error).__name__}: {error}"[:300]
    return AnsweredQuestion(question, [Verdict(None, why)] * len(question.rollouts), 0.0)


def _used(replies: Sequence[Reply]) -> dict[str, float]:
    """Return the usage of the requests that a service answered."""
    answered = [reply for reply in replies if reply.text is not None]
    return {
        JUDGE_CALLS: len(answered),
        JUDGE_READ: sum(reply.tokens_in for reply in answered),
        JUDGE_WROTE: sum(reply.tokens_out for reply in answered),
    }


def _key(options: JudgeOptions, ask: Ask) -> str:
    key = [
        options.address,
        options.model,
        options.temperature,
        options.max_tokens,
        list(ask.messages),
        ask.vote,
    ]
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


def _load_kept(keys: Sequence[str]) -> dict[str, Reply]:
    rows = JudgeReply.objects.filter(key__in=set(keys))
    return {
        row.key: Reply(row.text, "", row.tokens_in, row.tokens_out, is_cached=True) for row in rows
    }


def _keep(replies: dict[str, tuple[Reply, float]]) -> None:
    """Cache the replies, unreadable ones too, since they were paid for.

    A missing reply is not cached and is requested again next time.
    """
    JudgeReply.objects.bulk_create(
        (
            JudgeReply(
                key=key,
                text=reply.text,
                tokens_in=reply.tokens_in,
                tokens_out=reply.tokens_out,
                seconds=seconds,
            )
            for key, (reply, seconds) in replies.items()
            if reply.text is not None
        ),
        ignore_conflicts=True,
    )


async def _ask_all(fresh: dict[str, tuple[JudgeOptions, Ask]]) -> dict[str, tuple[Reply, float]]:
    room = asyncio.Semaphore(AT_ONCE)

    async def timed_reply(options: JudgeOptions, ask: Ask) -> tuple[Reply, float]:
        async with room:
            began = time.monotonic()
            try:
                reply = await _ask(options, ask)
            except (NoReply, BadAddress, CallFailed) as why:
                reply = Reply(None, f"{options.model}: {why}"[:300])
            return reply, time.monotonic() - began

    replies = await asyncio.gather(*(timed_reply(*question) for question in fresh.values()))
    return dict(zip(fresh, replies, strict=True))


async def _ask(options: JudgeOptions, ask: Ask) -> Reply:
    """Send one request, with retries, and return the reply.

    Raises NoReply, BadAddress and CallFailed once no retry is left or none would help.
    """
    address = addresses.parse_address(options.address)
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
                secret = find_secret("JUDGE_KEYS", address, machine)
                return _reply(
                    await exchanges.exchange_json(
                        address, machine, "POST", "/chat/completions", body, secret
                    )
                )
        except (TimeoutError, CallFailed) as why:
            if attempt == TRIES - 1 or (isinstance(why, BadStatus) and why.status not in PASSING):
                raise NoReply(
                    f"no reply within {options.timeout_s:g} s"
                    if isinstance(why, TimeoutError)
                    else str(why)
                ) from None
        await asyncio.sleep(PAUSE_S * 2**attempt)
    raise AssertionError("the last try either returns or raises")


def _reply(document: dict[str, Any]) -> Reply:
    """Parse a chat completion. Raises NoReply for anything else."""
    try:
        text = document["choices"][0]["message"]["content"]
        usage = document.get("usage") or {}
    except (KeyError, IndexError, TypeError):
        raise NoReply("the response is not a chat completion") from None
    if not isinstance(text, str):
        raise NoReply("the message in the response has no text")
    return Reply(
        text[:MAX_REPLY_LENGTH].replace("\0", "\ufffd"),
        "",
        _count(usage, "prompt_tokens"),
        _count(usage, "completion_tokens"),
    )


def _count(usage: object, name: str) -> int:
    value = usage.get(name, 0) if isinstance(usage, dict) else 0
    return value if isinstance(value, int) and 0 <= value < 2**31 else 0
