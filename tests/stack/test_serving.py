"""Callers use the policy with their own prompts while it learns from their feedback, on the real
stack.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest

from tests import profiles
from tests.framework_programs import PROGRAMS, results_of
from tests.stack.test_agents import KEY, digits

pytestmark = [pytest.mark.stack, pytest.mark.slow]
CALLERS = 3
IN_EVERY_RUN = ("use_vercel.mjs",)  # `make test-long` runs the others
STEPS = 3


class Callers:
    """Callers that ask their own sums, once or in a session of two turns, and give feedback on the
    replies, until stopped.
    """

    def __init__(self, base: str, key: str) -> None:
        self.base = base
        self.key = key
        self.client = openai.OpenAI(base_url=base, api_key=key, timeout=300, max_retries=100)
        self.stopped = threading.Event()
        self.asked, self.versions, self.reworded = [], set(), []

    def work(self, caller: int) -> None:
        place = 0
        try:
            while not self.stopped.is_set():
                ask = self.once if place % 2 else self.twice
                ask(caller, place)
                place += 1
        except openai.APIStatusError as refused:
            assert refused.status_code == 410, refused.message  # the run has ended

    def once(self, caller: int, place: int) -> None:
        self.judge(self.say([{"role": "user", "content": f"{caller}+{place}="}]), caller)

    def twice(self, caller: int, place: int) -> None:
        session = {"X-Rftweb-Episode": f"talk-{caller}-{place}"}
        messages = [{"role": "user", "content": f"{place}-{caller}="}]
        first = self.say(messages, extra_headers=session, max_tokens=10)
        messages += [
            {"role": "assistant", "content": first.choices[0].message.content},
            {"role": "user", "content": "+1="},
        ]
        last = self.say(messages, extra_headers=session, max_tokens=10)
        self.judge(first, caller)
        self.judge(last, caller)
        httpx.post(
            f"{self.base}/rl/end_session",
            json={},
            headers={"Authorization": f"Bearer {self.key}", **session},
            timeout=300,
        )

    def say(self, messages: list[dict], **more: object) -> openai.types.chat.ChatCompletion:
        said = self.client.chat.completions.create(model="tiny", messages=messages, **more)
        self.asked.append(messages[0]["content"])
        self.versions.add(int(said.system_fingerprint.removeprefix("weights-")))
        return said

    def judge(self, said: openai.types.chat.ChatCompletion, caller: int) -> None:
        """Give a score; the first caller then changes its first score."""
        score = digits(said.choices[0].message.content or "")
        self.word(said.id, score=score, user=f"caller {caller}")
        if caller == 0 and not self.reworded:
            other = 0.0 if score > 0.5 else 1.0  # an equal score would not count as a change
            self.reworded.append(self.word(said.id, score=other, user=f"caller {caller}"))

    def word(self, completion: str, **said: object) -> dict:
        answer = httpx.post(
            f"{self.base}/feedback",
            json={"completion_id": completion, **said},
            timeout=300,
            headers={"Authorization": f"Bearer {self.key}"},
        )
        assert answer.status_code == 201, answer.text
        return answer.json()


def served(installation, tmp_path, slug: str, **changes: object) -> Callers:
    installation.begin(
        slug,
        tmp_path,
        environment={"name": "agent"},
        rewards=[],
        taskset=f"asked-{slug}",
        group_size=1,
        steps=STEPS,
        algorithm="reinforce_plus_plus",
        sampling={"max_tokens": 30},
        **{"groups_per_step": 4, **changes},
    )
    key = installation.must("shell", "-c", KEY % slug).split()[-1]
    return Callers(f"{installation.stack.address}/v1", key)


@pytest.fixture
def callers(installation, tmp_path) -> Iterator[Callers]:
    callers = served(installation, tmp_path, "served", serve={"settle_s": 0.5, "feedback_s": 20})
    with ThreadPoolExecutor(CALLERS) as pool:
        working = [pool.submit(callers.work, n) for n in range(CALLERS)]
        yield callers
        callers.stopped.set()
    for one in working:
        one.result()


def test_run_trains_on_the_feedback_of_its_callers(installation, callers):
    installation.wait_completed("served")
    assert len(callers.versions) > 1 and callers.reworded[0]["version"] == 2
    trained = """SELECT count(*), count(*) FILTER (WHERE t.taskset_id = u.taskset_id)
        FROM buffer_experience e
                 JOIN rollouts_group g ON g.id = e.group_id JOIN tasksets_task t ON t.id = g.task_id
                 JOIN runs_run u ON u.id = g.run_id
                 WHERE e.state = 'trained' AND u.slug = 'served'"""
    assert installation.sql(trained) == [(4 * STEPS, 4 * STEPS)]
    kept = {
        prompt[0]["content"]
        for (prompt,) in installation.sql(
            "SELECT prompt FROM tasksets_task t JOIN tasksets_taskset s "
            "ON s.id = t.taskset_id WHERE s.slug = 'asked-served'"
        )
    }
    assert set(callers.asked) <= kept
    assert installation.violations() == {}


# Without groups whose explorer lost its lease on a stalled machine: they took no room, and their
# callers retried.
GROUPS = """SELECT g.answer_only, g.state, g.reason
    FROM rollouts_group g JOIN runs_run r ON r.id = g.run_id
            WHERE r.slug = 'crowded' AND g.reason NOT LIKE 'its explorer went away%%'
                ORDER BY g.id"""
REFUSED = (
    "SELECT count FROM environments_turnedaway t JOIN runs_run r ON r.id = t.run_id WHERE r.slug ="
    " 'refusing'"
)


def test_run_answers_requests_beyond_its_bound_without_training_on_them(installation, tmp_path):
    """The bound allows four groups, and nobody judges: later requests are only answered."""
    callers = served(
        installation,
        tmp_path,
        "crowded",
        serve={"over_bound": "answer_only", "feedback_s": 600},
        max_staleness=0,
    )
    answers = [callers.say([{"role": "user", "content": f"{place}+1="}]) for place in range(6)]
    assert [only for only, *_ in installation.sql(GROUPS)] == [False] * 4 + [True] * 2
    for said in answers:
        callers.word(said.id, thumb="up", final=True)
    installation.wait(
        "both are dropped",
        lambda: [state for _, state, _ in installation.sql(GROUPS)][4:] == ["dropped"] * 2,
    )
    assert all(
        reason.startswith("answered but not trained on")
        for only, _, reason in installation.sql(GROUPS)
        if only
    )
    assert installation.violations() == {}


def test_run_refuses_requests_beyond_its_bound_with_retry_after(installation, tmp_path):
    callers = served(installation, tmp_path, "refusing", serve={}, max_staleness=0)
    for place in range(4):
        callers.say([{"role": "user", "content": f"{place}+2="}])
    impatient = callers.client.with_options(max_retries=0)
    with pytest.raises(openai.RateLimitError) as refused:
        impatient.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "5+2="}]
        )
    assert (
        refused.value.response.headers["Retry-After"] == "1"
        and "max_staleness" in refused.value.message
    )
    assert installation.one(REFUSED) == 1


# -- the programs of common frameworks ------------------------------------------------------------

WAYS = ("chat", "stream", "options")
ANSWERS = """SELECT t.wishes, t.tokens, r.completion_tokens, octet_length(p.data), r.text
             FROM environments_episodeturn t JOIN environments_episode e ON e.id = t.episode_id
             JOIN runs_run u ON u.id = e.run_id JOIN rollouts_rollout r ON r.id = e.rollout_id
             LEFT JOIN rollouts_rolloutpayload p ON p.rollout_id = r.id
             WHERE u.slug = 'frameworks' AND e.id > %s"""
LAST = "SELECT coalesce(max(id), 0) FROM environments_episode"


@pytest.fixture(scope="module")
def frameworks(installation, tmp_path_factory) -> Callers:
    """Create a run with room for all their replies, which makes no step meanwhile."""
    folder = tmp_path_factory.mktemp("frameworks")
    serve = {"feedback_s": 600}
    return served(installation, folder, "frameworks", serve=serve, groups_per_step=64)


def written_since(installation, last: int) -> list[tuple]:
    """Return the replies since this episode once all are written, before that an empty list."""
    answers = installation.sql(ANSWERS, last)
    return answers if all(payload for _, _, _, payload, _ in answers) else []


@pytest.mark.parametrize("name", profiles.nightly_but(PROGRAMS, kept=IN_EVERY_RUN))
def test_program_of_a_framework_is_answered_by_the_policy(installation, frameworks, tmp_path, name):
    """Each reply is a rollout with its tokens; a client may retry a call."""
    last = installation.one(LAST)
    found = results_of(name, WAYS, frameworks.base, frameworks.key, tmp_path)
    answers = installation.wait("all is written", lambda: written_since(installation, last))
    assert len(answers) >= 2 + found["options"].get("choices", 1)
    assert all(tokens == written > 0 for _, tokens, written, _, _ in answers)
    short = [row for row in answers if row[0].get("max_tokens") == 8]
    lengths = {row[1] for row in short}
    texts = {row[4].strip() for row in short}
    for way in ("chat", "stream"):
        assert found[way].get("tokens", min(lengths)) in lengths
        assert found[way]["text"].strip() in texts
    assert all(logprob < 0 for logprob in found["options"].get("logprobs", [-1.0]))
