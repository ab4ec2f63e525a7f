"""REST API of episodes, for environments that call us: observations, actions and rewards."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from channels.db import database_sync_to_async
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Q
from django.http import Http404
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts import idempotency
from apps.accounts.async_response import (
    Receive,
    Send,
    answer_later,
    may_answer_later,
    send_events,
    send_json,
    unless_gone,
)
from apps.accounts.durability import commit_without_waiting
from apps.accounts.models import Project
from apps.accounts.problems import MEDIA_TYPE, RETRY_AFTER_S, Problem, by_field, problem_document
from apps.accounts.requests import ApiRequest
from apps.environments.access import WRITES, MayLook, MayPlay, get_episode, get_played_episode
from apps.environments.action_waiters import TurnState, await_action, standings
from apps.environments.errors import CannotPlay
from apps.environments.events import EventStream, stream_turn_events
from apps.environments.models import Environment, Episode
from apps.environments.playing import record_sign_of_life
from apps.environments.rest_errors import convert_refusal
from apps.environments.rewarding import AcceptedReward, TurnReward, reward_many
from apps.environments.schemas import (
    Ends,
    EpisodeDocument,
    NewReward,
    NewRewards,
    NewRewardsShape,
    NewTurn,
    RewardResults,
    TurnDocument,
)
from apps.environments.turn_messages import finish_episode, record_observation, turn_document
from apps.environments.turn_text import count_tokens_before

HAS_ENDED = {(410, MEDIA_TYPE): OpenApiResponse(Problem, "The episode has ended.")}
JSON = "application/json"
STREAM = (
    "`text` events while the action is generated, then one `turn` event with the turn as in the "
    "plain response."
)
PREFER = OpenApiParameter(
    "Prefer",
    str,
    OpenApiParameter.HEADER,
    description="`respond-async`: respond with 202 immediately.",
)
EXAMPLES = [
    OpenApiExample(
        "the first",
        request_only=True,
        value={"observation": "You stand at a fork. Say left or right."},
    ),
    OpenApiExample(
        "a later one",
        request_only=True,
        value={"number": 1, "observation": "A wall.", "reward": -0.1, "timeout_s": 20},
    ),
    OpenApiExample(
        "the last",
        request_only=True,
        value={"number": 2, "observation": "The exit!", "reward": 1, "done": True},
    ),
]
ATOMICITY = """Takes up to 1,000 rewards. Each is checked by itself: a refused one does not stop the
others, and result i answers reward i. All accepted rewards are stored in one transaction, and the
response is sent after its commit. Sending the same reward again changes nothing; a different reward
for the same turn is refused (409). `final`: no further reward will come for the episode."""


class OneEpisode(APIView):
    permission_classes = [MayLook]

    @extend_schema(operation_id="episodes_show", responses=EpisodeDocument)
    def get(self, request: ApiRequest, pk: int) -> Response:
        """Return an episode and the number of its next observation."""
        return Response(EpisodeDocument(get_episode(request, pk)).data)


class Turns(APIView):
    permission_classes = [MayPlay]
    renderer_classes = [JSONRenderer, EventStream]

    @extend_schema(
        operation_id="turns_create",
        request=NewTurn,
        parameters=[idempotency.PARAMETER, PREFER],
        examples=EXAMPLES,
        responses={
            (200, JSON): OpenApiResponse(
                TurnDocument, "The policy has acted, or the episode has ended."
            ),
            (200, EventStream.media_type): OpenApiResponse(str, STREAM),
            (202, JSON): OpenApiResponse(
                TurnDocument, "Not yet: get the turn at the address in Location."
            ),
            **HAS_ENDED,
        },
    )
    @idempotency.once_anew
    def post(self, request: ApiRequest, pk: int) -> Response:
        """Send the next observation and the reward of the last action, and get the next action.

        The request waits up to `timeout_s` for the action; with `Prefer: respond-async` it does
        not wait. With `Accept: text/event-stream` the text is streamed. Returns 410 if the
        episode has ended.
        """
        since = time.monotonic()
        is_streamed = isinstance(request.accepted_renderer, EventStream)
        with transaction.atomic():
            episode = get_played_episode(request, pk, to_write=True)
            form = NewTurn(data=request.data)
            form.is_valid(raise_exception=True)
            turn_state = _observe_once(request, episode, **form.validated_data)
            timeout_s = (
                0.0
                if "respond-async" in request.headers.get("Prefer", "").lower()
                else form.validated_data["timeout_s"]
            )
            waits = timeout_s > 0 and not turn_state.is_settled and may_answer_later(request)
            if waits and not is_streamed:
                commit_without_waiting()  # the action's COMMIT, or that of the 202, waits for both
        number = turn_state.number
        if waits:
            assert episode.rollout_id is not None
            answer: Callable[..., Awaitable[None]] = (
                partial(_stream, episode.rollout_id, count_tokens_before(episode.pk, number))
                if is_streamed
                else partial(_answer_when_acted, since)
            )
            answer_later(request, partial(answer, episode.pk, number, timeout_s))
        return _answer(turn_state)


class OneTurn(APIView):
    permission_classes = [MayLook]

    @extend_schema(
        operation_id="turns_show",
        responses={
            200: TurnDocument,
            202: OpenApiResponse(TurnDocument, "The policy has not acted yet; try again."),
        },
    )
    def get(self, request: ApiRequest, pk: int, number: int) -> Response:
        """Return the state of a turn, with the policy's action once it exists."""
        episode = get_episode(request, pk)
        if not episode.seen.filter(number=number).exists():
            raise Http404
        [turn_state] = standings([(pk, number)])
        return _answer(turn_state)


class Results(APIView):
    permission_classes = [MayPlay]

    @extend_schema(
        operation_id="episodes_end",
        request=Ends,
        parameters=[idempotency.PARAMETER],
        responses={200: EpisodeDocument, **HAS_ENDED},
    )
    @idempotency.once
    def post(self, request: ApiRequest, pk: int) -> Response:
        """End the episode, with the reward of its last action.

        Returns 410 if the episode has ended in another way.
        """
        with transaction.atomic():
            episode = get_played_episode(request, pk, to_write=True)
            form = Ends(data=request.data)
            form.is_valid(raise_exception=True)
            _end_episode(episode, **form.validated_data)
        return Response(EpisodeDocument(get_episode(request, pk)).data)


class Rewards(APIView):
    permission_classes = [MayPlay]

    @extend_schema(
        operation_id="rewards_create",
        description=ATOMICITY,
        request=NewRewardsShape,
        parameters=[idempotency.PARAMETER],
        responses={
            201: OpenApiResponse(RewardResults, "All taken."),
            207: OpenApiResponse(RewardResults, "Some refused."),
        },
    )
    @idempotency.once
    def post(self, request: ApiRequest) -> Response:
        form = NewRewards(data=request.data)
        form.is_valid(raise_exception=True)
        results = _reward(request, form.validated_data["rewards"])
        refused = any(result["status"] >= 400 for result in results)
        return Response(RewardResults({"results": results}).data, 207 if refused else 201)


# -- turns


def _observe_once(
    request: ApiRequest, episode: Episode, number: int | None = None, **fields: Any
) -> TurnState:
    """Record an observation once per idempotency key.

    Without a number it is the next observation; a repeated request keeps the number that it got.
    """
    if number is None:
        stored_answer = idempotency.read_stored_answer(request)
        number = stored_answer if isinstance(stored_answer, int) else None
    turn_state = _record_observation(episode, number=number, **fields)
    if number is None:
        idempotency.store_for_repetition(request, turn_state.number)
    return turn_state


def _record_observation(episode: Episode, timeout_s: float, **fields: Any) -> TurnState:
    """Record an observation and wait for the action. Raises APIException."""
    try:
        return record_observation(episode, **fields)
    except CannotPlay as why:
        raise convert_refusal(why) from why


def _answer(turn_state: TurnState) -> Response:
    status, headers = _head(turn_state)
    return Response(turn_document(turn_state), status, headers=headers)


def _head(turn_state: TurnState) -> tuple[int, dict[str, str]]:
    if turn_state.is_settled:
        return 200, {}
    return 202, {
        "Location": f"/api/v1/episodes/{turn_state.episode_id}/turns/{turn_state.number}/",
        "Retry-After": "1",
    }


async def _answer_when_acted(
    since: float,
    pk: int,
    number: int,
    timeout_s: float,
    scope: dict,
    receive: Receive,
    send: Send,
) -> None:
    try:
        turn_state = await unless_gone(await_action(pk, number, timeout_s, since), receive)
        if turn_state is not None and not turn_state.is_settled:
            # A COMMIT that waits for the disk: the 202 says that the observation is stored.
            await database_sync_to_async(record_sign_of_life)(pk)
    except (OperationalError, InterfaceError):
        away = problem_document(
            503, "database_unavailable", "The database is not available; try again."
        )
        await send_json(send, 503, away, MEDIA_TYPE, **{"retry-after": RETRY_AFTER_S})
        return
    if turn_state is not None:
        status, headers = _head(turn_state)
        await send_json(
            send,
            status,
            turn_document(turn_state),
            **{name.lower(): value for name, value in headers.items()},
        )


async def _stream(
    rollout_id: int,
    past: int,
    pk: int,
    number: int,
    timeout_s: float,
    scope: dict,
    receive: Receive,
    send: Send,
) -> None:
    events = stream_turn_events(pk, number, timeout_s, rollout_id, past)
    await unless_gone(send_events(send, events, **{"cache-control": "no-store"}), receive)


# -- the end and rewards


def _end_episode(
    episode: Episode, outcome: str, reward: float | None, reason: str, final: bool
) -> None:
    """End the episode. Raises APIException."""
    try:
        finish_episode(episode, outcome, reward, reason, final)
    except CannotPlay as why:
        raise convert_refusal(why) from why


def _reward(request: ApiRequest, documents: list[object]) -> list[dict]:
    """Return the result of each reward, in their order."""
    forms = [NewReward(data=document) for document in documents]
    rewards = [_turn_reward(**form.validated_data) if form.is_valid() else None for form in forms]
    playable_ids = _playable_ids(request, {reward.episode_id for reward in rewards if reward})
    accepted = [reward for reward in rewards if reward and reward.episode_id in playable_ids]
    outcomes = iter(reward_many(accepted) if accepted else [])
    results = []
    for form, reward in zip(forms, rewards, strict=True):
        if reward is None:
            results.append(_unacceptable(form))
        else:
            results.append(
                _result(reward, next(outcomes) if reward.episode_id in playable_ids else None)
            )
    return results


def _turn_reward(episode: int, turn: int | None, reward: float, final: bool) -> TurnReward:
    return TurnReward(episode, turn, reward, final)


def _playable_ids(request: ApiRequest, ids: set[int]) -> set[int]:
    """Return those of these episodes that the user may reward.

    The user plays them, or we play them and the user may steer runs in the project.
    """
    is_playable = Q(client=request.user) | ~Q(environment__kind__in=Environment.CALLING)
    rows = Episode.objects.filter(
        is_playable, pk__in=ids, environment__project__in=Project.objects.run_by(request.user)
    )
    names = dict(rows.values_list("pk", "environment__name"))
    return {
        pk for pk, name in names.items() if request.auth is None or request.auth.may(WRITES, name)
    }


def _result(turn_reward: TurnReward, outcome: AcceptedReward | CannotPlay | None) -> dict:
    match outcome:
        case None:
            return _refusal(
                404,
                "There is no such episode, or you do not play it.",
                turn_reward.episode_id,
                turn_reward.turn,
            )
        case AcceptedReward(turn, is_late):
            return {
                "status": 201,
                "episode": turn_reward.episode_id,
                "turn": turn,
                "is_late": is_late,
                "detail": "",
            }
        case CannotPlay():
            return _refusal(
                422 if outcome.code == "bad_reward" else 409,
                str(outcome),
                turn_reward.episode_id,
                turn_reward.turn,
            )


def _unacceptable(form: NewReward) -> dict:
    return _refusal(
        422, "; ".join(f"{field}: {words[0]}" for field, words in by_field(form.errors))
    )


def _refusal(status: int, detail: str, episode: int | None = None, turn: int | None = None) -> dict:
    return {"status": status, "episode": episode, "turn": turn, "is_late": False, "detail": detail}
