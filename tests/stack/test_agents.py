"""An agent with the official openai client and no code of ours trains the tiny policy on the real
stack.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest

pytestmark = [pytest.mark.stack, pytest.mark.slow]
AGENTS = 3
KEY = """
from apps.accounts.models import Token, User
from apps.runs.models import Run
run = Run.objects.get(slug=%r)
print(Token.issue(User.objects.get(username="root"), "agent", [f"agent:{run.pk}"])[1])
"""


class Guesser:
    """Asks for a sum, runs its tool on the reply, sends the result, asks once more, and sends
    rewards at the end of the session.

    Repeats this until stopped.
    """

    def __init__(self, base: str, key: str) -> None:
        self.base = base
        self.key = key
        self.stopped = threading.Event()
        self.played = []
        self.streamed = 0

    def work(self, streams: bool) -> None:
        while not self.stopped.is_set():
            answer = self.post("rl/start_session", self.key)
            if answer.status_code == 429:
                self.stopped.wait(float(answer.headers["Retry-After"]) / 4)
            elif answer.status_code == 201:
                self.play(answer.json()["api_key"], streams)
            else:
                assert answer.json()["error"]["code"] == "run_ended", answer.text
                return

    def play(self, key: str, streams: bool) -> None:
        client = openai.OpenAI(base_url=self.base, api_key=key, timeout=300, max_retries=5)
        messages = [{"role": "user", "content": "12+3="}]
        earned = {}
        try:
            for _ in range(2):
                text, completion = self.ask(client, messages, streams)
                earned[completion] = digits(text)
                messages += [
                    {"role": "assistant", "content": text},
                    {"role": "user", "content": f"{digits(text):.1f}"},
                ]
        except openai.APIStatusError as refused:
            # The run has ended, or the messages leave no room for a reply.
            assert refused.status_code in (409, 410, 429), refused.message
        except (
            openai.APIError
        ) as told:  # the same during a stream, whose status has been sent already
            assert told.code == "episode_ended", told.message
        self.post("rl/end_session", key)
        for place, (completion, reward) in enumerate(earned.items(), 1):
            self.post(
                "rl/set_reward",
                key,
                reward=reward,
                interaction_id=completion,
                final=place == len(earned),
            )
        self.played.append(len(earned))

    def ask(self, client: openai.OpenAI, messages: list[dict], streams: bool) -> tuple[str, str]:
        wanted = {
            "model": "tiny",
            "messages": messages,
            "max_tokens": 20,
            "stop": ["0"],
            "logprobs": True,
        }
        if not streams:
            said = client.chat.completions.create(**wanted)
            text = said.choices[0].message.content
            told = said.choices[0].logprobs.content
        else:
            chunks = list(client.chat.completions.create(**wanted, stream=True))
            said = chunks[-1]
            self.streamed += 1
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
            told = [
                one
                for chunk in chunks
                if chunk.choices[0].logprobs
                for one in chunk.choices[0].logprobs.content
            ]
        assert "0" not in text and len(told) <= 20 and all(one.logprob <= 0 for one in told)
        assert "".join(one.token for one in told).startswith(text)
        return text, said.id

    def post(self, verb: str, key: str, **body: object) -> httpx.Response:
        return httpx.post(
            f"{self.base}/{verb}",
            json=body,
            headers={"Authorization": f"Bearer {key}"},
            timeout=300,
        )


def digits(text: str) -> float:
    """Return the share of digits in the reply; this is the agent's tool."""
    return sum(character.isdigit() for character in text) / max(1, len(text))


@pytest.fixture
def guesser(installation, tmp_path) -> Iterator[Guesser]:
    installation.begin(
        "agents",
        tmp_path,
        environment={"name": "agent", "reward_s": 600},
        rewards=[],
        steps=3,
        group_size=2,
        groups_per_step=2,
        sampling={"max_tokens": 60},
    )
    key = installation.must("shell", "-c", KEY % "agents").split()[-1]
    guesser = Guesser(f"{installation.stack.address}/v1", key)
    with ThreadPoolExecutor(AGENTS) as pool:
        working = [pool.submit(guesser.work, streams=n == 0) for n in range(AGENTS)]
        yield guesser
        guesser.stopped.set()
    for one in working:
        one.result()


def test_agent_with_the_openai_client_trains_the_policy(installation, guesser):
    installation.wait_completed("agents")
    assert 2 in guesser.played and guesser.streamed
    rewarded = """SELECT count(*)
        FROM rewards_reward w JOIN rollouts_rollout o ON o.id = w.rollout_id
                  JOIN rollouts_group g ON g.id = o.group_id JOIN runs_run r ON r.id = g.run_id
                  WHERE r.slug = 'agents' AND w.source = 'environment'
                  AND w.value IS NOT NULL AND o.state = 'finished'"""
    assert installation.one(rewarded) >= 12
    assert installation.violations() == {}
