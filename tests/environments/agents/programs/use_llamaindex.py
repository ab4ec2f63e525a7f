"""Use LlamaIndex as its quick start does.

Run in .venv-agent-frameworks, with OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL set.
"""

import json
import os

from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

MODEL = os.environ["OPENAI_MODEL"]
KEY = os.environ["OPENAI_API_KEY"]
PROMPT = [ChatMessage(role="system", content="You add."), ChatMessage(role="user", content="12+3=")]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Sum(BaseModel):
    """A sum."""

    a: int
    b: int


def llm(name: str = "", **more: object) -> OpenAILike:
    key = f"{KEY}.{name}" if name else KEY
    base = os.environ["OPENAI_BASE_URL"]
    return OpenAILike(
        model=MODEL,
        api_base=base,
        api_key=key,
        is_chat_model=True,
        is_function_calling_model=True,
        **more,
    )


def chat() -> dict:
    answer = llm(max_tokens=8).chat(PROMPT)
    return {"text": answer.message.content, "tokens": answer.raw.usage.completion_tokens}


def stream() -> dict:
    chunks = list(llm(max_tokens=8).stream_chat(PROMPT))
    return {"text": "".join(chunk.delta or "" for chunk in chunks)}


def options() -> dict:
    more = {"seed": 7, "stop": ["\n\n\n"], "user": "ann", "store": False, "top_p": 0.9}
    answer = llm(temperature=0, logprobs=True, additional_kwargs=more).chat(PROMPT)
    return {"logprobs": [one.logprob for one in answer.raw.choices[0].logprobs.content]}


def tools() -> dict:
    model = llm("llamaindex")
    tool = FunctionTool.from_defaults(add)
    answer = model.chat_with_tools([tool], chat_history=PROMPT)
    calls = model.get_tool_calls_from_response(answer)
    history = [*PROMPT, answer.message]
    for call in calls:
        said = str(tool(**call.tool_kwargs).content)
        history.append(
            ChatMessage(role="tool", content=said, additional_kwargs={"tool_call_id": call.tool_id})
        )
    last = model.chat_with_tools([tool], chat_history=history)
    return {"calls": [call.tool_kwargs for call in calls], "text": last.message.content}


def structured() -> dict:
    answer = llm().as_structured_llm(Sum).chat(PROMPT)
    return {"sum": answer.raw.model_dump()}


def refused() -> dict:
    try:
        llm(max_retries=0, additional_kwargs={"response_format": {"type": "json_object"}}).chat(
            PROMPT
        )
    except Exception as error:
        return {"status": error.status_code, "param": error.body["param"], "error": str(error)}


WAYS = (chat, stream, options, tools, structured, refused)
wanted = os.environ["WAYS"].split()
print(json.dumps({way.__name__: way() for way in WAYS if way.__name__ in wanted}))
