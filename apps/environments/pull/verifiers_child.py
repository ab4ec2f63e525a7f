"""Child process that plays the verifiers package's environments, run by .venv-verifiers.

It imports nothing of ours and follows the protocol of library/child.py, one request per line.
Verifiers runs its own loop and calls its model, which is the policy. So a request to the model is
an observation here, and the action is its reply; the rewards of the trace belong to the last
action. The seed selects the taskset's row. Tools are described in text and called as
<tool_call>{…}</tool_call>.
"""

import asyncio
import json
import os
import queue
import re
import resource
import signal
import sys
import threading
from contextlib import AsyncExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
from verifiers.v1 import EvalClientConfig, Harness, HarnessConfig, ModelContext
from verifiers.v1.configs.agent import agent_config_fields
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.harnesses.utils.mcp import call_mcp, connect_mcp
from verifiers.v1.runtimes import ProgramResult
from verifiers.v1.utils.loaders import load_environment, resolve_env_config

__all__ = ["PolicyHarness"]

HARNESS = "rftweb_policy"
MODEL = "policy"
CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)
ROWS_LOOKED_AT = 10_000  # rows of a taskset that a seed can choose


class PolicyHarness(Harness[HarnessConfig]):
    """The chat loop of verifiers' own null harness, in this process, without other programs."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        elif prompt is not None:
            messages += [message_to_wire(message) for message in prompt]
        async with AsyncExitStack() as stack:
            servers = {"mcpServers": {name: {"url": url} for name, url in mcp_urls.items()}}
            tools, dispatch, open_servers = await connect_mcp(servers, stack)
            client = await stack.enter_async_context(httpx.AsyncClient(timeout=None))
            while (reply := await _reply(client, endpoint, secret, messages, tools)) is not None:
                messages.append(reply)
                if not reply.get("tool_calls"):
                    break
                for call in reply["tool_calls"]:
                    result = await _call_tool(open_servers, dispatch, call["function"])
                    messages.append(
                        {
                            "role": "tool",
                            "tool_call_id": call["id"],
                            "name": call["function"]["name"],
                            "content": result,
                        }
                    )
        return ProgramResult(exit_code=0, stdout="", stderr="")


async def _reply(client, endpoint, secret, messages, tools):
    """Return the model's next message; None when verifiers stops (a limit, a stop condition)."""
    request = {"model": MODEL, "messages": messages, **({"tools": tools} if tools else {})}
    answer = await client.post(
        f"{endpoint}/chat/completions", json=request, headers={"Authorization": f"Bearer {secret}"}
    )
    return answer.json()["choices"][0]["message"] if answer.status_code == 200 else None


async def _call_tool(servers, dispatch, function):
    if function["name"] not in dispatch:
        return f"error: there is no tool {function['name']!r}; there are {', '.join(dispatch)}"
    try:
        return await call_mcp(
            servers, dispatch, function["name"], json.loads(function["arguments"])
        )
    except Exception as error:  # any error of a tool is its result
        return f"error: {error}"[:500]


class Seat:
    """One episode: it passes requests to the model out, and the policy's actions in."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue = queue.SimpleQueue()  # requests, and at the end the result
        self.actions: queue.SimpleQueue = queue.SimpleQueue()
        self.messages_seen = 0  # number of messages that the policy has seen
        self.calls = 0

    def observation(self, body):
        """Return the new messages. Raises ValueError when earlier ones have changed."""
        messages = body["messages"]
        tools = body.get("tools") or []
        if len(messages) < self.messages_seen:
            raise ValueError(
                "it changed earlier messages; histories that are rewritten are not supported"
            )
        new = [_message(message) for message in messages[self.messages_seen :]]
        if self.messages_seen == 0 and tools:
            new.insert(0, {"role": "system", "content": _manual(tools)})
            if len(new) > 1 and new[1]["role"] == "system":
                new[:2] = [
                    {"role": "system", "content": f"{new[1]['content']}\n\n{new[0]['content']}"}
                ]
        self.messages_seen = len(messages) + 1  # and its reply
        return new

    def reply(self, text, has_tools):
        """Return the policy's text as the model's message."""
        calls = [call for call in map(_read_call, CALL.findall(text)) if call] if has_tools else []
        message = {"role": "assistant", "content": text}
        if calls:
            message["content"] = CALL.sub("", text).strip()
            message["tool_calls"] = []
            for name, arguments in calls:
                self.calls += 1
                function = {"name": name, "arguments": json.dumps(arguments)}
                message["tool_calls"].append(
                    {"id": f"call_{self.calls}", "type": "function", "function": function}
                )
        return message


def _message(message):
    """Convert a message for the policy. Raises ValueError for anything but text."""
    content = message.get("content") or ""
    if not isinstance(content, str):
        if any(part.get("type") != "text" for part in content):
            raise ValueError(
                "it sends content other than text, which this kind of environment does not support"
            )
        content = "\n".join(part["text"] for part in content)
    if message["role"] not in ("system", "user", "tool"):
        raise ValueError(
            f"it sends a message with the role {message['role']}; only system, user and tool are"
            " allowed"
        )
    return {"role": message["role"], "content": content}


def _manual(tools):
    listing = "\n".join(json.dumps(tool["function"]) for tool in tools)
    form = '<tool_call>{"name": …, "arguments": {…}}</tool_call>'
    return f"You may call tools. To call one, say {form} and wait for its result.\n{listing}"


def _read_call(written):
    try:
        call = json.loads(written)
    except ValueError:
        return None
    has_name = isinstance(call, dict) and isinstance(call.get("name"), str)
    return (call["name"], call.get("arguments") or {}) if has_name else None


class Model(BaseHTTPRequestHandler):
    """The model endpoint for verifiers: OpenAI's API on loopback, answered by the policy."""

    seats: dict = {}  # by the trace's id
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        seat = self.seats.get(self.headers.get("X-Session-ID"))
        if seat is None:
            return self._answer(404, {"error": {"message": "no such episode"}})
        seat.events.put(("request", body))
        text = seat.actions.get()
        if text is None:
            return self._answer(503, {"error": {"message": "the episode was closed"}})
        message = seat.reply(text, bool(body.get("tools")))
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
        }
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        completion = {
            "id": "said",
            "object": "chat.completion",
            "created": 0,
            "model": MODEL,
            "choices": [choice],
            "usage": usage,
        }
        return self._answer(200, completion)

    def _answer(self, status, document) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_) -> None:
        """Log nothing: the content belongs to the episode."""


class Stage:
    """The open tasksets, on one event loop."""

    def __init__(self, client) -> None:
        self.client = client
        # by name, options and turn limit: a future, and the task that serves the environment
        self.open: dict[tuple, tuple] = {}

    async def play(self, seat, name, seed, options, turns) -> None:
        """Play one episode to its end; the result goes to its Seat."""
        try:
            environment, tasks = await self._environment(name, options, turns)
            task = tasks[seed % len(tasks)]
            context = ModelContext(model=MODEL, client=self.client)
            episode = await environment.run_episode(
                task, context, on_trace=lambda trace: Model.seats.update({trace.id: seat})
            )
            for trace in episode.traces:
                Model.seats.pop(trace.id, None)
            seat.events.put(("ended", _episode_reward(episode)))
        except (
            Exception,
            asyncio.CancelledError,
        ) as error:
            # Any error ends only this episode.
            seat.events.put(("failed", f"{type(error).__name__}: {error}"[:300]))

    async def _environment(self, name, options, turns):
        key = name, json.dumps(options, sort_keys=True), turns
        if key not in self.open:
            ready = asyncio.get_running_loop().create_future()
            # A reference is kept, or the task may be garbage-collected.
            self.open[key] = (
                ready,
                asyncio.ensure_future(_serve(_load_environment(name, options, turns), ready)),
            )
        return await asyncio.shield(self.open[key][0])


async def _serve(environment, ready) -> None:
    """Keep shared resources of the environment (tool servers) while this process runs."""
    try:
        async with environment.serving():
            tasks = list(environment.taskset.take(ROWS_LOOKED_AT))
            if not tasks:
                raise ValueError("its taskset is empty")
            ready.set_result((environment, tasks))
            await asyncio.Future()
    except Exception as error:  # reported to every episode that needs it
        ready.set_exception(error)


def _load_environment(name, options, turns):
    """Return the taskset's own environment, with the policy as its only agent.

    Options are fields of the taskset's configuration.
    """
    seats = agent_config_fields(resolve_env_config({"taskset": {**options, "id": name}}))
    if len(seats) != 1:
        raise ValueError(
            f"{name} has several agents ({', '.join(seats)}); only environments of one can be"
            " played"
        )
    (seat,) = seats
    agent = {
        "harness": {"id": HARNESS},
        "runtime": {"type": "subprocess"},
        "max_turns": turns or None,
    }
    return load_environment(resolve_env_config({"taskset": {**options, "id": name}, seat: agent}))


def _episode_reward(episode):
    """Return the sum of the rewards, or None if nothing was scored.

    Raises ValueError if verifiers reports the episode as failed.
    """
    errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
    if not episode.ok:
        raise ValueError(
            f"{errors[-1].type}: {errors[-1].message}"[:300]
            if errors
            else "it failed without a message"
        )
    (trace,) = episode.traces
    has_reward = any(reward is not None for reward in trace.rewards.values())
    info = {"metrics": trace.metrics, "stop_condition": trace.stop_condition}
    return {"reward": trace.reward if has_reward else None, "info": info}


class Plays:
    """The open episodes, each with the number of its actions."""

    def __init__(self, stage, loop) -> None:
        self.stage = stage
        self.loop = loop
        self.under_way: dict[int, tuple[Seat, int]] = {}

    def answer(self, request):
        episode = request["episode"]
        if "close" in request:
            self._close(episode)
            return None
        try:
            return {"episode": episode, "number": len(request["actions"]), **self._follow(request)}
        except Exception as error:  # reported to the parent, as any other answer
            self._close(episode)
            return {"episode": episode, "error": str(error)[:300] or type(error).__name__}

    def _follow(self, request):
        episode = request["episode"]
        actions = request["actions"]
        seat, turn_count = self.under_way.pop(episode, (None, -1))
        if seat is None or turn_count != len(actions) - 1:
            seat = Seat()
            turn_count = 0
            playing = self.stage.play(
                seat, request["name"], request["seed"], request["options"], request.get("turns", 0)
            )
            asyncio.run_coroutine_threadsafe(playing, self.loop)
            step = self._next_step(seat)
        for action in actions[turn_count:]:
            seat.actions.put(action)
            step = self._next_step(seat)
        self.under_way[episode] = seat, len(actions)
        return step

    def _next_step(self, seat):
        what, content = seat.events.get()
        if what == "failed":
            raise ValueError(content)
        if what == "ended":
            return {
                "observation": "",
                "reward": content["reward"],
                "done": True,
                "info": content["info"],
            }
        return {"observation": seat.observation(content), "reward": None, "done": False, "info": {}}

    def _close(self, episode):
        seat, _ = self.under_way.pop(episode, (None, 0))
        if seat is not None:
            seat.actions.put(None)


def lines():
    """Yield the request lines; when the parent is gone, end this process and its children."""
    waiting: queue.SimpleQueue = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin.buffer:
            waiting.put(line)
        end()

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield waiting.get()


def end() -> None:
    for pid in descendants(os.getpid()):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    os._exit(0)


def descendants(pid):
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(folder.name))
    pids = list(children.get(pid, []))
    for child in pids:
        pids += children.get(child, [])
    return pids


def main(memory_bytes: int) -> None:
    # Of data, not of addresses: the runtimes of tools reserve many more of these than they use.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    sys.modules[HARNESS] = sys.modules[__name__]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a taskset's output must not mix with replies
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    client = EvalClientConfig(
        base_url=f"http://127.0.0.1:{server.server_address[1]}/v1", api_key_var="RFTWEB_NO_KEY"
    )
    plays = Plays(Stage(client), loop)
    for line in lines():
        if answer := plays.answer(json.loads(line)):
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
