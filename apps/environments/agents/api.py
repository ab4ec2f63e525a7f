"""OpenAI's API, and the calls for sessions beside it."""

import hashlib
import uuid
from collections.abc import Callable
from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts import idempotency
from apps.accounts.async_response import (
    EVENTS,
    Application,
    Receive,
    Send,
    answer_later,
    send_events,
    send_json,
    unless_gone,
)
from apps.environments.agents import answers, parameters, sessions
from apps.environments.agents.hearing import AnswerFeedback, hear
from apps.environments.agents.keys import AgentKey, Caller, get_caller
from apps.environments.agents.parameters import ChatCall
from apps.environments.agents.refusals import Refused, handle_agent_error, refuse_field, unsupported
from apps.environments.agents.streaming import stream_parts, whole_parts
from apps.environments.agents.turns import begin_turns
from apps.environments.agents.waiting import Call, answered_all, answered_here
from apps.environments.models import Episode, EpisodeTurn, Feedback

MAX_PERSON_LENGTH = 200
MAX_CORRECTION_LENGTH = 100_000


@extend_schema(exclude=True)
class AgentView(APIView):
    """The base of views for a caller with a run's key; errors have OpenAI's form.

    `request.user` is the Caller.
    """

    authentication_classes = (AgentKey,)

    def once_scope(self, request: Request) -> list:
        """Return the run and episode, since a person's other keys may be for other ones."""
        caller = get_caller(request)
        return [caller.run.pk, caller.episode]

    def get_exception_handler(self) -> Callable[[Exception, dict], Response]:
        return handle_agent_error


class ChatCompletions(AgentView):
    """The policy's answer to what is new in the messages: one turn of the episode."""

    read = staticmethod(parameters.read_chat_call)

    def post(self, request: Request) -> Response | HttpResponse:
        chat_call = self.read(request.data, get_caller(request).run)
        begun = self._turns_of_call(request, chat_call)
        calls = [Call(chat_call, turn, begun[0]) for turn in begun]
        if answer_later(
            request._request, _streamed(calls) if chat_call.stream else _answer_whole(calls)
        ):
            return Response(status=202)  # a placeholder: the event loop sends the answer
        turns = [answered_here(call) for call in calls]
        if chat_call.stream:
            whole = b"".join(whole_parts(calls, turns))
            return HttpResponse(whole, content_type=EVENTS, headers=answers.headers(calls[0]))
        return Response(answers.completion(calls, turns), headers=answers.headers(calls[0]))

    def _turns_of_call(self, request: Request, chat_call: ChatCall) -> list[EpisodeTurn]:
        """Return the turns that answer this call.

        A repeated call with the same idempotency key gets the same turns, unless nobody will answer
        them.
        """
        turns = _turns(self.begin(request, chat_call).data)
        if any(
            turn.answered_at is None and turn.episode.state == Episode.State.ABANDONED
            for turn in turns
        ):
            idempotency.forget_request_key(request)
            turns = _turns(self.begin(request, chat_call).data)
        return turns

    @idempotency.once
    def begin(self, request: Request, chat_call: ChatCall) -> Response:
        return Response([turn.pk for turn in begin_turns(get_caller(request), chat_call)])


def _turns(pks: list[int]) -> list[EpisodeTurn]:
    """Return the turns in the order in which they were begun."""
    return list(EpisodeTurn.objects.select_related("episode").filter(pk__in=pks).order_by("pk"))


class Completions(ChatCompletions):
    """The policy's continuation of a bare text, in an episode of its own."""

    read = staticmethod(parameters.read_text)


def _answer_whole(calls: list[Call]) -> Application:
    headers = answers.headers(calls[0])

    async def application(_scope: dict[str, Any], receive: Receive, send: Send) -> None:
        try:
            turns = await unless_gone(answered_all(calls), receive)
        except Refused as why:
            await send_json(send, why.status, why.document, **why.headers, **headers)
            return
        if turns is not None:
            await send_json(send, 200, answers.completion(calls, turns), **headers)

    return application


def _streamed(calls: list[Call]) -> Application:
    headers = answers.headers(calls[0])

    async def application(_scope: dict[str, Any], receive: Receive, send: Send) -> None:
        try:
            await unless_gone(send_events(send, stream_parts(calls), **headers), receive)
        except Refused as why:
            await send_json(send, why.status, why.document, **why.headers, **headers)

    return application


class Nowhere(AgentView):
    """Every other endpoint that OpenAI's clients can call."""

    def get(self, request: Request) -> Response:
        raise Refused(404, "unsupported_endpoint", _unknown_path_message(request.path[:100]))

    post = put = patch = delete = get


def _unknown_path_message(path: str) -> str:
    why = f"There is no {path} here; use POST /v1/chat/completions."
    if not path.startswith("/v1/responses"):
        return why
    return (
        f"{why} Use the Chat Completions API: in the OpenAI Agents SDK "
        'set_default_openai_api("chat_completions"), in LangChain use_responses_api=False, in the '
        "Vercel AI SDK @ai-sdk/openai-compatible."
    )


class Models(AgentView):
    def get(self, request: Request) -> Response:
        return Response({"object": "list", "data": [_model(get_caller(request))]})


class OneModel(AgentView):
    def get(self, request: Request, model: str) -> Response:
        caller = get_caller(request)
        if model != caller.run.policy.slug:
            raise Refused(404, "model_not_found", f"There is no model {model[:100]!r}.", "model")
        return Response(_model(caller))


def _model(caller: Caller) -> dict:
    policy = caller.run.policy
    created = int(policy.created_at.timestamp())
    return {
        "id": policy.slug,
        "object": "model",
        "created": created,
        "owned_by": caller.run.project.slug,
    }


# -- sessions


class StartSession(AgentView):
    @idempotency.once_anew  # the answer contains a secret, which is not stored
    def post(self, request: Request) -> Response:
        """An episode under a name, with the task that all attempts of its group are made at.

        429 when none is free.
        """
        fields = _fields(request, "task_id")
        secret = request.headers["Authorization"].split()[1].partition(".")[0]
        return Response(
            sessions.start_session(
                get_caller(request), fields.get("task_id") or _name_of(request), secret
            ),
            201,
        )


def _name_of(request: Request) -> str:
    """Return a name derived from the Idempotency-Key, else a new one."""
    key = request.headers.get(idempotency.HEADER)
    if key is None:
        return f"session-{uuid.uuid4().hex}"
    digest = hashlib.sha256(f"{request.user.pk} {key}".encode()).hexdigest()
    return f"session-{digest[:32]}"


class SetReward(AgentView):
    @idempotency.once
    def post(self, request: Request) -> Response:
        """Set the reward of an answer: of this interaction, or the last."""
        fields = _fields(request, "reward", "interaction_id", "final")
        if "reward" not in fields:
            raise refuse_field("reward", "must be a number")
        episode, number = sessions.place(get_caller(request), fields.get("interaction_id"))
        return Response(
            _receipt(
                hear(
                    get_caller(request),
                    episode,
                    number,
                    AnswerFeedback(score=fields["reward"], is_final=_final(fields)),
                )
            )
        )


class EndSession(AgentView):
    @idempotency.once
    def post(self, request: Request) -> Response:
        """Nothing follows; rewards may, where they may come later and this is not `final`."""
        return Response(
            sessions.finish_session(get_caller(request), _final(_fields(request, "final")))
        )


class Export(AgentView):
    def post(self, request: Request) -> Response:
        """The session as it is recorded."""
        _fields(request)
        return Response(sessions.export_session(get_caller(request)))


class FeedbackView(AgentView):
    @idempotency.once
    def post(self, request: Request) -> Response:
        """Store a user's feedback on an answer; changed feedback is a further version."""
        fields = _fields(request, "completion_id", "thumb", "score", "correction", "user", "final")
        word = _read_feedback(fields)
        episode, number = answers.turn_named(fields.get("completion_id"))
        return Response(_receipt(hear(get_caller(request), episode, number, word)), 201)


def _read_feedback(body: dict) -> AnswerFeedback:
    thumb = body.get("thumb")
    score = body.get("score")
    correction = body.get("correction", "")
    if thumb not in (None, "up", "down"):
        raise refuse_field("thumb", "must be up or down")
    if thumb is not None and score is not None:
        raise refuse_field("score", "requires a thumb")
    if not isinstance(correction, str) or len(correction) > MAX_CORRECTION_LENGTH:
        raise refuse_field(
            "correction", f"must be a text of at most {MAX_CORRECTION_LENGTH} characters"
        )
    if thumb is None and score is None and not correction.strip():
        raise refuse_field("thumb", "send a thumb (up, down), a score or a correction")
    person = body.get("user", "")
    if not isinstance(person, str) or len(person) > MAX_PERSON_LENGTH:
        raise refuse_field("user", f"must be a text of at most {MAX_PERSON_LENGTH} characters")
    return AnswerFeedback(person, thumb, score, correction, _final(body))


def _final(body: dict) -> bool:
    """Tell whether the caller announces that no further feedback follows for the episode."""
    if not isinstance(body.get("final", False), bool):
        raise refuse_field("final", "must be true or false")
    return body.get("final", False)


def _receipt(word: Feedback) -> dict:
    turn = word.turn
    turn.refresh_from_db(fields=["reward", "late_reward"])
    return {
        "id": f"feedback-{word.pk}",
        "interaction_id": answers.completion_id(turn),
        "version": word.version,
        "score": word.value,
        "is_late": word.is_late,
        "reward": turn.reward,
        "late_reward": turn.late_reward,
    }


def _fields(request: Request, *allowed: str) -> dict:
    """Return the body's non-null fields; raise an error that names an unknown one."""
    body = request.data if request.data is not None else {}
    if not isinstance(body, dict):
        raise Refused(400, "invalid_value", "The body must be a JSON object.")
    for name in body:
        if name not in allowed:
            raise unsupported(
                name[:100], f"is not a known field; known: {', '.join(allowed) or 'none'}"
            )
    return {name: value for name, value in body.items() if value is not None}
