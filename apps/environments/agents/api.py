"""OpenAI's interface, and the verbs of a session beside it."""

import hashlib
import uuid
from collections.abc import Callable
from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts import once
from apps.accounts.later import EVENTS, Application, Receive, Send, answer_later, send_events, send_json, unless_gone
from apps.environments.agents import answers, asked, sessions
from apps.environments.agents.asked import Asked
from apps.environments.agents.hearing import Word, hear
from apps.environments.agents.keys import AgentKey, Caller
from apps.environments.agents.refusals import Refused, handler, unsupported, wrong
from apps.environments.agents.streaming import parts_of, whole_parts
from apps.environments.agents.turns import begin
from apps.environments.agents.waiting import Call, answered_all, answered_here
from apps.environments.models import Episode, EpisodeTurn, Feedback

LONGEST_PERSON, LONGEST_CORRECTION = 200, 100_000


@extend_schema(exclude=True)
class AgentView(APIView):
    """Of a caller with a key of a run; errors in OpenAI's shape. `request.user` is the Caller."""

    authentication_classes = (AgentKey,)

    def once_scope(self, request: Request) -> list:
        """A key of the same person's may be of another run or session."""
        return [request.user.run.pk, request.user.episode]

    def get_exception_handler(self) -> Callable[[Exception, dict], Response]:
        return handler


class ChatCompletions(AgentView):
    """The policy's answer to what is new in the messages: one turn of the episode."""

    read = staticmethod(asked.read)

    def post(self, request: Request) -> Response | HttpResponse:
        wanted = self.read(request.data, request.user.run)
        begun = self._begun(request, wanted)
        calls = [Call(wanted, turn, begun[0]) for turn in begun]
        if answer_later(request._request, _streamed(calls) if wanted.stream else _whole(calls)):
            return Response(status=202)  # not sent: the event loop answers in its place
        turns = [answered_here(call) for call in calls]
        if wanted.stream:
            whole = b"".join(whole_parts(calls, turns))
            return HttpResponse(whole, content_type=EVENTS, headers=answers.headers(calls[0]))
        return Response(answers.completion(calls, turns), headers=answers.headers(calls[0]))

    def _begun(self, request: Request, wanted: Asked) -> list[EpisodeTurn]:
        """The turns that answer this call. Said again under the same key it has the same, unless nobody will answer these."""
        turns = _turns(self.begin(request, wanted).data)
        if any(turn.answered_at is None and turn.episode.state == Episode.State.ABANDONED for turn in turns):
            once.forget(request)
            turns = _turns(self.begin(request, wanted).data)
        return turns

    @once.once
    def begin(self, request: Request, wanted: Asked) -> Response:
        return Response([turn.pk for turn in begin(request.user, wanted)])


def _turns(pks: list[int]) -> list[EpisodeTurn]:
    """In the order in which they were begun."""
    return list(EpisodeTurn.objects.select_related("episode").filter(pk__in=pks).order_by("pk"))


class Completions(ChatCompletions):
    """What the policy writes behind a bare text, in an episode of its own."""

    read = staticmethod(asked.read_text)


def _whole(calls: list[Call]) -> Application:
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
            await unless_gone(send_events(send, parts_of(calls), **headers), receive)
        except Refused as why:
            await send_json(send, why.status, why.document, **why.headers, **headers)

    return application


class Nowhere(AgentView):
    """Every other endpoint that OpenAI's clients can call."""

    def get(self, request: Request) -> Response:
        raise Refused(404, "unsupported_endpoint", _why_nowhere(request.path[:100]))

    post = put = patch = delete = get


def _why_nowhere(path: str) -> str:
    why = f"There is no {path} here: this policy answers POST /v1/chat/completions."
    if not path.startswith("/v1/responses"):
        return why
    return (
        f"{why} Use the Chat Completions API: in the OpenAI Agents SDK "
        'set_default_openai_api("chat_completions"), in LangChain use_responses_api=False, in the '
        "Vercel AI SDK @ai-sdk/openai-compatible."
    )


class Models(AgentView):
    def get(self, request: Request) -> Response:
        return Response({"object": "list", "data": [_model(request.user)]})


class OneModel(AgentView):
    def get(self, request: Request, model: str) -> Response:
        if model != request.user.run.policy.slug:
            raise Refused(404, "model_not_found", f"The model {model[:100]!r} is not here.", "model")
        return Response(_model(request.user))


def _model(caller: Caller) -> dict:
    policy = caller.run.policy
    created = int(policy.created_at.timestamp())
    return {"id": policy.slug, "object": "model", "created": created, "owned_by": caller.run.project.slug}


# -- sessions -------------------------------------------------------------------------------------------------------


class StartSession(AgentView):
    @once.once_anew  # its answer has a secret in it, which is not kept
    def post(self, request: Request) -> Response:
        """An episode under a name, with the task that all attempts of its group are made at. 429 when none is free."""
        said = _fields(request, "task_id")
        secret = request.headers["Authorization"].split()[1].partition(".")[0]
        return Response(sessions.start(request.user, said.get("task_id") or _name_of(request), secret), 201)


def _name_of(request: Request) -> str:
    """The same for the same Idempotency-Key, for ever; else a new one."""
    key = request.headers.get(once.HEADER)
    return f"session-{uuid.uuid4().hex if key is None else hashlib.sha256(f'{request.user.pk} {key}'.encode()).hexdigest()[:32]}"


class SetReward(AgentView):
    @once.once
    def post(self, request: Request) -> Response:
        """What an answer earned: of this interaction, or the last."""
        said = _fields(request, "reward", "interaction_id", "final")
        if "reward" not in said:
            raise wrong("reward", "must be a number")
        episode, number = sessions.place(request.user, said.get("interaction_id"))
        return Response(_receipt(hear(request.user, episode, number, Word(score=said["reward"], is_final=_final(said)))))


class EndSession(AgentView):
    @once.once
    def post(self, request: Request) -> Response:
        """Nothing follows; rewards may, where they may come later and this is not `final`."""
        return Response(sessions.finish(request.user, _final(_fields(request, "final"))))


class Export(AgentView):
    def post(self, request: Request) -> Response:
        """The session as it is recorded."""
        _fields(request)
        return Response(sessions.export(request.user))


class FeedbackView(AgentView):
    @once.once
    def post(self, request: Request) -> Response:
        """What one of the agent's users says of an answer; said again, it is a further version."""
        said = _fields(request, "completion_id", "thumb", "score", "correction", "user", "final")
        word = _word(said)
        episode, number = answers.turn_named(said.get("completion_id"))
        return Response(_receipt(hear(request.user, episode, number, word)), 201)


def _word(said: dict) -> Word:
    thumb, score, correction = said.get("thumb"), said.get("score"), said.get("correction", "")
    if thumb not in (None, "up", "down"):
        raise wrong("thumb", "must be up or down")
    if thumb is not None and score is not None:
        raise wrong("score", "goes without a thumb")
    if not isinstance(correction, str) or len(correction) > LONGEST_CORRECTION:
        raise wrong("correction", f"must be a text of at most {LONGEST_CORRECTION} characters")
    if thumb is None and score is None and not correction.strip():
        raise wrong("thumb", "say a thumb (up, down), a score or a correction")
    person = said.get("user", "")
    if not isinstance(person, str) or len(person) > LONGEST_PERSON:
        raise wrong("user", f"must be a text of at most {LONGEST_PERSON} characters")
    return Word(person, thumb, score, correction, _final(said))


def _final(said: dict) -> bool:
    """Whether nobody will say more about the episode."""
    if not isinstance(said.get("final", False), bool):
        raise wrong("final", "must be true or false")
    return said.get("final", False)


def _receipt(word: Feedback) -> dict:
    turn = word.turn
    turn.refresh_from_db(fields=["reward", "late_reward"])
    return {
        "id": f"feedback-{word.pk}", "interaction_id": answers.id_of(turn), "version": word.version,
        "score": word.value, "is_late": word.is_late, "reward": turn.reward, "late_reward": turn.late_reward,
    }  # fmt: skip


def _fields(request: Request, *known: str) -> dict:
    """The body's fields that say something; an unknown one is named."""
    body = request.data if request.data is not None else {}
    if not isinstance(body, dict):
        raise Refused(400, "invalid_value", "The body must be a JSON object.")
    for name in body:
        if name not in known:
            raise unsupported(name[:100], f"is not known here; known: {', '.join(known) or 'none'}")
    return {name: value for name, value in body.items() if value is not None}
