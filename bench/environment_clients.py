"""Clients of bench/environments.py: push environments and agents, each with one connection."""

import http.client
import json
import threading
import time
import uuid
from collections.abc import Callable

from bench.environment_stage import TURNS, WAIT_S


class Client:
    """A persistent connection; `took` are milliseconds per turn, `episodes` those played."""

    def __init__(self, port: int, secret: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=90)
        self.headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        self.name = uuid.uuid4().hex
        self.took: list[float] = []
        self.episodes = 0
        self.error: Exception | None = None

    def ask(
        self, method: str, path: str, document: dict | None = None, **headers: str
    ) -> tuple[int, dict]:
        body = None if document is None else json.dumps(document)
        self.connection.request(method, path, body, {**self.headers, **headers})
        answer = self.connection.getresponse()
        reply = answer.read()
        is_json = answer.headers.get_content_type().endswith("json")
        return answer.status, json.loads(reply) if is_json else {}

    def must(self, method: str, path: str, document: dict, **headers: str) -> dict:
        """Send a request; retry 429, and raise RuntimeError for other errors."""
        until_s = time.monotonic() + WAIT_S
        while True:
            status, reply = self.ask(method, path, document, **headers)
            if status < 300:
                return reply
            if status != 429 or time.monotonic() > until_s:
                raise RuntimeError(f"{path} answered {status}: {reply}")
            time.sleep(0.005)

    def timed(self, *request: object, **headers: str) -> dict:
        began = time.perf_counter()
        reply = self.must(*request, **headers)
        self.took.append(1000 * (time.perf_counter() - began))
        return reply


def pushes(client: Client, name: str, ends: Callable[[], bool]) -> None:
    """Play an environment that calls the installation, until `ends()`."""
    while not ends():
        _, episode = play_to_last_action(client, name)
        client.must(
            "POST",
            f"/api/v1/episodes/{episode}/turns/",
            {"number": TURNS, "observation": "", "reward": 1, "done": True},
        )
        client.episodes += 1


def play_to_last_action(
    client: Client, name: str, reward: float | None = 0.5
) -> tuple[list[int], int]:
    """Play an episode up to its last action; return the tokens of its actions, and its id."""
    episode = client.must("POST", f"/api/v1/environments/{name}/episodes/", {})["id"]
    tokens = []
    for number in range(TURNS):
        turn = {"number": number, "observation": "Go on.", "reward": reward if number else None}
        reply = client.timed("POST", f"/api/v1/episodes/{episode}/turns/", turn)
        if reply["action"] is None:
            raise RuntimeError(f"no action: {reply}")
        tokens.append(reply["tokens"])
    return tokens, episode


def talks(client: Client, name: str, ends: Callable[[], bool]) -> None:
    """Act as an agent that uses the policy as its model, until `ends()`."""
    while not ends():
        key = {"X-Rftweb-Episode": f"{client.name}-{client.episodes}"}
        messages = []
        for _ in range(TURNS):
            messages.append({"role": "user", "content": "Go on."})
            reply = client.timed(
                "POST", "/v1/chat/completions", {"model": "policy", "messages": messages}, **key
            )
            messages.append(reply["choices"][0]["message"])
        client.must("POST", "/v1/rl/set_reward", {"reward": 1}, **key)
        client.must("POST", "/v1/rl/end_session", {}, **key)
        client.episodes += 1


def at_once(count: int, port: int, secret: str, work: Callable[[Client], None]) -> list[Client]:
    """Run several clients, each in a thread; raise the first exception of any."""
    clients = [Client(port, secret) for _ in range(count)]

    def play(client: Client) -> None:
        try:
            work(client)
        except Exception as error:
            client.error = error

    threads = [threading.Thread(target=play, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        if client.error:
            raise client.error
    return clients
