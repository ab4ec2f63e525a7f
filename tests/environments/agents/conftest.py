"""An agent with a key for a run, a web process that it calls over HTTP, and a thread that acts for
the policy.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import openai
import pytest
import redis
from django.conf import settings
from django.db import connection

from apps.accounts.models import Token
from apps.environments.action_waiters import Waiters
from apps.environments.closing import abandon, fail_episode
from apps.environments.environment_lookup import find_or_register
from apps.environments.models import Environment, Episode, EpisodeTurn
from apps.environments.playing import Action, record_actions
from apps.runs.models import Run
from tests.streaming.conftest import serve  # noqa: F401

SECONDS = 20


@pytest.fixture
def agent(project) -> Environment:
    return find_or_register(project, "agent")


@pytest.fixture
def run(agent, new_run) -> Run:
    return new_run(environment={"name": "agent"}, rewards=[], group_size=2)


@pytest.fixture
def key(run, alice) -> str:
    return Token.issue(alice, "an agent", [f"agent:{run.pk}"])[1]


@pytest.fixture
def episodes(agent, run, opened) -> list[Episode]:
    """Return the free episodes of one group."""
    return opened(agent, run)


@dataclass
class Actor:
    """Answer every observation with the next text of `says`, as the explorer does, until it is
    stopped.
    """

    says: list[str] = field(default_factory=lambda: ["one", "two", "three"])
    say: Callable[[EpisodeTurn], str] | None = None  # in their place
    is_cut: bool = False
    tells: bool = False  # the logprobs of its tokens
    stopped: threading.Event = field(default_factory=threading.Event)

    def work(self) -> None:
        try:
            while not self.stopped.wait(0.01):
                for episode in Episode.objects.filter(state="policy"):
                    number = episode.turns - 1
                    text = self.text_for(episode, number)
                    told = [(letter, list(letter.encode()), -0.5) for letter in text]
                    record_actions(
                        [
                            Action(
                                episode.pk,
                                number,
                                text,
                                10 * number,
                                3,
                                5 + 10 * number,
                                self.is_cut,
                                told if self.tells else None,
                            )
                        ]
                    )
        finally:
            connection.close()

    def text_for(self, episode: Episode, number: int) -> str:
        if self.say is None:
            return self.says[number % len(self.says)]
        return self.say(episode.seen.get(number=number))


@pytest.fixture
def actor(transactional_db) -> Iterator[Actor]:
    actor = Actor()
    thread = threading.Thread(target=actor.work)
    thread.start()
    yield actor
    actor.stopped.set()
    thread.join()


@pytest.fixture
def address(serve) -> Iterator[str]:
    yield serve().replace("ws:", "http:")
    for waiters in list(
        Waiters.of_loop.values()
    ):  # their threads keep connections that would outlive the test database
        waiters.thread.submit(lambda: connection.close()).result()


@pytest.fixture
def client_of(address) -> Callable[..., openai.OpenAI]:
    """Return a function that creates the official client with this key; it does not retry."""

    def make(secret: str, **more: object) -> openai.OpenAI:
        return openai.OpenAI(
            base_url=f"{address}/v1", api_key=secret, timeout=SECONDS, max_retries=0, **more
        )

    return make


@pytest.fixture
def client(client_of, key) -> openai.OpenAI:
    return client_of(key)


@pytest.fixture
def redis_of() -> redis.Redis:
    """Return a client of the test suite's Redis."""
    return redis.Redis.from_url(settings.REDIS_URL)


def _each(do: Callable[[int], object]) -> Iterator[None]:
    """Call `do` for every episode that waits for the policy."""

    def work() -> None:
        try:
            while not stopped.wait(0.01):
                for pk in Episode.objects.filter(state="policy").values_list("pk", flat=True):
                    do(pk)
        finally:
            connection.close()

    stopped = threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    yield
    stopped.set()
    thread.join()


@pytest.fixture
def ender(transactional_db) -> Iterator[None]:
    """End episodes that wait for the policy."""
    yield from _each(lambda pk: abandon(pk, "its explorer has gone"))


@pytest.fixture
def failer(transactional_db) -> Iterator[None]:
    """Fail episodes because the prompt is too long for the policy."""
    yield from _each(
        lambda pk: fail_episode(pk, "the prompt of 900 tokens leaves no room for a reply")
    )
