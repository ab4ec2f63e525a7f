"""Throughput of environments by kind, and the overhead of a turn over the bare engine.

    python bench/environments.py [--seconds 8] [--clients 8] [--port 8361]

Everything is real: embedded services, the web process, an explorer in a process of its own, tokens,
rows. Only the policy of the first round is one that answers at once (bench/instant_engine.py, used
by benchmarks only); in the second it is an untrained one of 3 million parameters. Push environments
and agents are played by one client and by `--clients`; those that we call, a class of the library
and an HTTP service, are played by the explorer.

`overhead_ms` is the time of one client's turn (from posting the observation to reading the action)
less the engine's time for the same tokens after the same tokens, median less median, in the same
run. Then rewards: results one by one, and batches of up to 1,000, each with a tenth sent twice;
`counted_twice` is read from the table. The last line on standard output is JSON.
"""

import argparse
import json
import multiprocessing
import statistics
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.environment_clients import Client, at_once, play_to_last_action, pushes, talks
from bench.environment_stage import (
    TURNS,
    create_environment_stage,
    explore_until_told,
    run_web_processes,
    running_run,
    service,
    spawned,
    wait_for_state,
)
from bench.installation import installation

POLICIES = ("instant", "tiny")
HELD = 200  # episodes waiting at their last action when rewards are measured
BATCH = 1_000
AIMS = {
    "overhead_ms": "<= 15",
    "results_per_s": ">= 50",
    "rewards_per_s": ">= 1000",
    "counted_twice": "0",
}


def main() -> None:
    options = parse_options()
    with installation(
        RFTWEB_DEBUG="0", RFTWEB_REQUESTS_PER_SECOND="1000000", RFTWEB_ENVIRONMENT_HOSTS="127.0.0.1"
    ) as var:
        secret = create_environment_stage(var)
        with run_web_processes(options.port), service() as address:
            rows = {
                policy: measure_environments(policy, options, secret, address)
                for policy in POLICIES
            }
    print_environment_table(rows)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=8.0, help="seconds per measurement")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--port", type=int, default=8361)
    return parser.parse_args()


def measure_environments(
    policy: str, options: argparse.Namespace, secret: str, address: str
) -> dict[str, float]:
    """Measure all kinds of environments with this policy; return the figures by name."""
    parent_end, child_end = multiprocessing.Pipe()
    process = spawned(explore_until_told, policy, child_end)
    try:
        figures = measure_clients(policy, options, secret) | calling(policy, options, address)
        if policy == "instant":
            figures |= rewarded(options, secret)
        parent_end.send("enough")
        if bare := parent_end.recv():
            figures |= {
                "bare_ms": statistics.median(bare),
                "overhead_ms": figures["push_1_ms"] - statistics.median(bare),
            }
    finally:
        process.kill()
    return figures


def measure_clients(policy: str, options: argparse.Namespace, secret: str) -> dict[str, float]:
    """Measure push environments and agents, with one client, then with several."""
    from apps.accounts.models import Project, Token, User
    from apps.environments.models import Environment

    name = f"push-{policy}"
    Environment.objects.create(
        project=Project.objects.get(),
        name=name,
        kind=Environment.Kind.PUSH,
        turn_limit=2 * TURNS,
        turn_s=600,
        parallel=10_000,
    )
    figures = {}
    for way, work, environment in (("push", pushes, name), ("agent", talks, "agent")):
        with running_run(f"{way}-{policy}", environment) as run:
            key = (
                secret
                if way == "push"
                else Token.issue(User.objects.get(), "agent", [f"agent:{run.pk}"])[1]
            )
            at_once(
                1, options.port, key, partial(work, name=environment, ends=_after_one())
            )  # the run's engine is loaded then
            for count in (1, options.clients):
                ends = time.monotonic() + options.seconds
                clients = at_once(
                    count,
                    options.port,
                    key,
                    partial(work, name=environment, ends=partial(_is_after, ends)),
                )
                figures |= rates(
                    f"{way}_{count}", clients, options.seconds + max(0.0, time.monotonic() - ends)
                )
    return figures


def _is_after(moment: float) -> bool:
    return time.monotonic() > moment


def _after_one() -> Callable[[], bool]:
    """Return a function that returns False the first time, then True."""
    answers = iter([False])
    return lambda: next(answers, True)


def rates(name: str, clients: list[Client], seconds: float) -> dict[str, float]:
    took = [milliseconds for client in clients for milliseconds in client.took]
    return {
        f"{name}_ms": statistics.median(took),
        f"{name}_turns_per_s": len(took) / seconds,
        f"{name}_episodes_per_s": sum(client.episodes for client in clients) / seconds,
    }


def calling(policy: str, options: argparse.Namespace, address: str) -> dict[str, float]:
    """Measure environments that we call, by the episodes that the explorer adds to the table."""
    from apps.accounts.models import Project
    from apps.environments.models import Episode, EpisodeTurn
    from apps.environments.pull.registering import register_service

    name = f"http-{policy}"
    register_service(Project.objects.get(), name, "http", address, turn_limit=2 * TURNS)
    figures = {}
    for way, environment in (("library", "guess_number"), ("http", name)):
        with running_run(f"{way}-{policy}", environment) as run:
            episodes = Episode.objects.filter(run=run, closed_at__isnull=False)
            turns = EpisodeTurn.objects.filter(episode__run=run, answered_at__isnull=False)
            wait_for_state("an episode is over", episodes.exists)
            began = time.monotonic()
            before = (episodes.count(), turns.count())
            time.sleep(options.seconds)
            seconds = time.monotonic() - began
            figures |= {
                f"{way}_episodes_per_s": (episodes.count() - before[0]) / seconds,
                f"{way}_turns_per_s": (turns.count() - before[1]) / seconds,
            }
    return figures


def rewarded(options: argparse.Namespace, secret: str) -> dict[str, float]:
    """Measure rewards in batches, then results one by one, a tenth of each sent twice."""
    from apps.environments.models import Episode, EpisodeTurn

    with running_run("rewarded", "push-instant"):
        episodes: list[int] = []
        at_once(options.clients, options.port, secret, lambda client: _hold(client, episodes))
        episodes = episodes[:HELD]
        rewards = [
            {"episode": episode, "turn": turn, "reward": 0.5}
            for episode in episodes
            for turn in range(TURNS - 1)
        ]
        rewards = [
            again for n, reward in enumerate(rewards) for again in [reward] * (1 + (n % 10 == 9))
        ]
        client = Client(options.port, secret)
        began = time.perf_counter()
        for first in range(0, len(rewards), BATCH):
            batch = client.must(
                "POST", "/api/v1/rewards/", {"rewards": rewards[first : first + BATCH]}
            )
            if any(result["status"] != 201 for result in batch["results"]):
                raise RuntimeError(
                    "refused:"
                    f" {next(result for result in batch['results'] if result['status'] != 201)}"
                )
        rewards_per_s = len(rewards) / (time.perf_counter() - began)
        began = time.perf_counter()
        results_left = list(enumerate(episodes))
        lock = threading.Lock()
        at_once(
            options.clients,
            options.port,
            secret,
            lambda client: _results(client, results_left, lock),
        )
        results_per_s = len(episodes) * 1.1 / (time.perf_counter() - began)
        turns = EpisodeTurn.objects.filter(episode__in=episodes, reward__isnull=False)
        stored_rewards = turns.count()
        closed = Episode.objects.filter(pk__in=episodes, state=Episode.State.DONE).count()
        if (stored_rewards, closed) != (len(episodes) * TURNS, len(episodes)):
            raise RuntimeError(
                f"{stored_rewards} rewards of {len(episodes) * TURNS} and {closed} ends of"
                f" {len(episodes)} are stored"
                " the table"
            )
        wait_for_state("their rewards are told", lambda: _count_rewarded(episodes) == len(episodes))
    return {
        "results_per_s": results_per_s,
        "rewards_per_s": rewards_per_s,
        "counted_twice": counted_twice(episodes),
    }


def _hold(client: Client, episodes: list[int]) -> None:
    while len(episodes) < HELD:
        episodes.append(play_to_last_action(client, "push-instant", reward=None)[1])


def _results(client: Client, results_left: list[tuple[int, int]], lock: threading.Lock) -> None:
    while True:
        with lock:
            if not results_left:
                return
            n, episode = results_left.pop()
        for _ in range(1 + (n % 10 == 9)):
            status, answer = client.ask(
                "POST", f"/api/v1/episodes/{episode}/result/", {"reward": 0.5}
            )
            if status >= 300:
                raise RuntimeError(f"result answered {status}: {answer}")


def _count_rewarded(episodes: list[int]) -> int:
    """Return how many of these episodes' rollouts have a reward by the environment."""
    from apps.rewards.models import Reward

    return Reward.objects.filter(rollout__episodes__in=episodes, source="environment").count()


def counted_twice(episodes: list[int]) -> int:
    """Return the episodes whose rollout's reward is not the sum of distinct rewards."""
    from apps.rewards.models import Reward

    words = Reward.objects.filter(rollout__episodes__in=episodes, source="environment").values_list(
        "value", flat=True
    )
    return sum(abs(value - 0.5 * TURNS) > 1e-9 for value in words)


def print_environment_table(rows: dict[str, dict[str, float]]) -> None:
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    print(f"{'':>26} " + " ".join(f"{policy:>10}" for policy in rows))
    for name in names:
        print(
            f"{name:>26} "
            + " ".join(
                f"{row[name]:>10.1f}" if name in row else f"{'':>10}" for row in rows.values()
            )
        )
    figures = {
        f"{policy}_{name}": round(value, 1)
        for policy, row in rows.items()
        for name, value in row.items()
    }
    flat = {
        name: next(round(row[name], 1) for row in rows.values() if name in row) for name in AIMS
    }
    print(json.dumps(figures | flat | {"aims": AIMS}))


if __name__ == "__main__":
    main()
