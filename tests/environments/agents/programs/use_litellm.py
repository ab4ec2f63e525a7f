"""Use LiteLLM as its quick start does.

Run in .venv-agent-frameworks, with OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL set.
"""

import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise it fetches a list of prices

import litellm

MODEL = f"openai/{os.environ['OPENAI_MODEL']}"
KEY = os.environ["OPENAI_API_KEY"]
PROMPT = [{"role": "system", "content": "You add."}, {"role": "user", "content": "12+3="}]
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}


def chat() -> dict:
    answer = litellm.completion(MODEL, PROMPT, temperature=0, max_tokens=8, stop="\n\n\n", seed=7)
    text = answer.choices[0].message.content
    return {"text": text, "tokens": answer.usage.completion_tokens}


def stream() -> dict:
    options = {"include_usage": True}
    chunks = list(
        litellm.completion(MODEL, PROMPT, max_tokens=8, stream=True, stream_options=options)
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    usage = next(chunk.usage for chunk in chunks if getattr(chunk, "usage", None))
    return {"text": text, "tokens": usage.completion_tokens}


def options() -> dict:
    answer = litellm.completion(
        MODEL,
        PROMPT,
        n=2,
        top_p=0.9,
        user="ann",
        logprobs=True,
        logit_bias={},
        presence_penalty=0,
        frequency_penalty=0,
        parallel_tool_calls=None,
        service_tier="flex",
    )
    logprobs = answer.choices[0].logprobs.content
    return {"choices": len(answer.choices), "logprobs": [one.logprob for one in logprobs]}


def tools() -> dict:
    named = {"tools": [ADD], "api_key": f"{KEY}.litellm"}
    messages = [*PROMPT]
    message = litellm.completion(MODEL, messages, tool_choice="auto", **named).choices[0].message
    messages.append(message)
    arguments = []
    for call in message.tool_calls:
        arguments.append(json.loads(call.function.arguments))
        result = str(sum(arguments[-1].values()))
        messages.append({"role": "tool", "tool_call_id": call.id, "name": "add", "content": result})
    last = litellm.completion(MODEL, messages, **named).choices[0].message
    return {"calls": arguments, "text": last.content}


def structured() -> dict:
    forced = {"type": "function", "function": {"name": "add"}}
    message = litellm.completion(MODEL, PROMPT, tools=[ADD], tool_choice=forced).choices[0].message
    return {"sum": json.loads(message.tool_calls[0].function.arguments)}


def refused() -> dict:
    try:
        litellm.completion(MODEL, PROMPT, response_format={"type": "json_object"}, max_retries=0)
    except litellm.BadRequestError as error:
        return {"status": error.status_code, "param": "response_format", "error": str(error)}


WAYS = (chat, stream, options, tools, structured, refused)
wanted = os.environ["WAYS"].split()
print(json.dumps({way.__name__: way() for way in WAYS if way.__name__ in wanted}))
