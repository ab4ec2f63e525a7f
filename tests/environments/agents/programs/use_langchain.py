"""Use LangChain as its quick start does.

Run in .venv-agent-frameworks, with OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL set.
"""

import json
import os

from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

MODEL = os.environ["OPENAI_MODEL"]
KEY = os.environ["OPENAI_API_KEY"]
PROMPT = [SystemMessage("You add."), HumanMessage("12+3=")]


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Sum(BaseModel):
    """A sum."""

    a: int
    b: int


def chat() -> dict:
    model = ChatOpenAI(model=MODEL, temperature=0, max_tokens=8, stop=["\n\n\n"], seed=7)
    answer = model.invoke(PROMPT)
    return {"text": answer.content, "tokens": answer.usage_metadata["output_tokens"]}


def stream() -> dict:
    model = ChatOpenAI(model=MODEL, max_completion_tokens=8, stream_usage=True)
    chunks = list(model.stream(PROMPT))
    usage = next(chunk.usage_metadata for chunk in chunks if chunk.usage_metadata)
    text = "".join(chunk.content for chunk in chunks)
    return {"text": text, "tokens": usage["output_tokens"]}


def options() -> dict:
    model = ChatOpenAI(
        model=MODEL,
        temperature=0.7,
        top_p=0.9,
        n=2,
        logprobs=True,
        store=True,
        service_tier="priority",
        metadata={"team": "adders"},
        model_kwargs={"user": "ann"},
    )
    result = model.generate([PROMPT])
    [choices] = result.generations
    logprobs = choices[0].message.response_metadata["logprobs"]["content"]
    return {"choices": len(choices), "logprobs": [one["logprob"] for one in logprobs]}


def tools() -> dict:
    model = ChatOpenAI(model=MODEL, api_key=f"{KEY}.langchain").bind_tools([add])
    messages = [*PROMPT]
    called = model.invoke(messages)
    messages.append(called)
    for call in called.tool_calls:
        messages.append(ToolMessage(str(add.invoke(call["args"])), tool_call_id=call["id"]))
    return {
        "calls": [call["args"] for call in called.tool_calls],
        "text": model.invoke(messages).content,
    }


def structured() -> dict:
    model = ChatOpenAI(model=MODEL)
    by_call = model.with_structured_output(Sum, method="function_calling")
    return {"sum": by_call.invoke("12+3=").model_dump()}


def refused() -> dict:
    try:
        ChatOpenAI(model=MODEL, max_retries=0).with_structured_output(Sum).invoke("12+3=")
    except Exception as error:
        return {"status": error.status_code, "param": error.body["param"], "error": str(error)}


WAYS = (chat, stream, options, tools, structured, refused)
wanted = os.environ["WAYS"].split()
print(json.dumps({way.__name__: way() for way in WAYS if way.__name__ in wanted}))
