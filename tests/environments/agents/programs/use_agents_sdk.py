"""Use the OpenAI Agents SDK as its quick start does.

Run in .venv-agent-frameworks, with OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL set.
"""

import asyncio
import json
import os

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    Runner,
    function_tool,
    set_default_openai_api,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel

MODEL = os.environ["OPENAI_MODEL"]
KEY = os.environ["OPENAI_API_KEY"]
set_tracing_disabled(True)
set_default_openai_api("chat_completions")
loop = asyncio.new_event_loop()  # of all calls: a client's connections belong to one loop
asyncio.set_event_loop(loop)
called = []


@function_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    called.append({"a": a, "b": b})
    return a + b


class Sum(BaseModel):
    a: int
    b: int


def agent(name: str = "", **more: object) -> Agent:
    model = MODEL
    if name:
        model = OpenAIChatCompletionsModel(MODEL, AsyncOpenAI(api_key=f"{KEY}.{name}"))
    return Agent(name="Adder", instructions="You add.", model=model, **more)


def chat() -> dict:
    settings = ModelSettings(temperature=0, max_tokens=8)
    result = Runner.run_sync(agent(model_settings=settings), "12+3=")
    tokens = result.raw_responses[0].usage.output_tokens
    return {"text": result.final_output, "tokens": tokens}


def stream() -> dict:
    async def read() -> str:
        settings = ModelSettings(max_tokens=8, include_usage=True)
        result = Runner.run_streamed(agent(model_settings=settings), "12+3=")
        pieces = []
        async for event in result.stream_events():
            if (
                event.type == "raw_response_event"
                and event.data.type == "response.output_text.delta"
            ):
                pieces.append(event.data.delta)
        assert "".join(pieces) == result.final_output
        return result.final_output

    return {"text": loop.run_until_complete(read())}


def options() -> dict:
    settings = ModelSettings(
        top_p=0.9, store=True, metadata={"team": "adders"}, extra_body={"user": "ann", "seed": 7}
    )
    return {"text": Runner.run_sync(agent(model_settings=settings), "12+3=").final_output}


def tools() -> dict:
    settings = ModelSettings(parallel_tool_calls=False)
    result = Runner.run_sync(agent("agents", tools=[add], model_settings=settings), "12+3=")
    return {"calls": called, "text": result.final_output}


def refused() -> dict:
    try:
        Runner.run_sync(agent(output_type=Sum), "12+3=")
    except Exception as error:
        return {"status": error.status_code, "param": error.body["param"], "error": str(error)}


def responses() -> dict:
    set_default_openai_api("responses")
    try:
        Runner.run_sync(agent(), "12+3=")
    except Exception as error:
        return {"status": error.status_code, "error": str(error)}


WAYS = (chat, stream, options, tools, refused, responses)
wanted = os.environ["WAYS"].split()
print(json.dumps({way.__name__: way() for way in WAYS if way.__name__ in wanted}))
