"""What environments say to rollouts in flight: the policy's turn again, with it before its eyes, or the end."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from apps.environments.news import News
from apps.environments.observations import messages, text_of
from apps.tasksets.messages import text_of as text_in
from workers.explorer import scripts
from workers.explorer.episodes import TURN_LIMIT, Played
from workers.explorer.flight import Flight
from workers.explorer.scripts import FollowUp
from workers.explorer.speaker import NoDialogue, Spelt
from workers.vision.eyes import Unreadable

if TYPE_CHECKING:
    from workers.explorer.seat import Seat


def hear(seat: "Seat") -> None:
    """Take what the environments have said: it is the policy's turn again, or the rollout ends."""
    for played, news in seat.episodes.news(is_beside=seat.awaits_engine):
        flight = played.flight
        if flight in seat.ended:
            continue
        if news.has_ended:
            _end_with(seat, flight, news)
        elif reason := _why_no_more(seat, played, news):
            seat.end(flight, reason)
        else:
            seat.waiting.append(flight)


def _end_with(seat: "Seat", flight: Flight, news: News) -> None:
    if flight.request_id:
        seat.halt(flight)
    if news.is_failure:
        flight.failure = f"environment {news.state}: {news.reason}"
    seat.end(flight, flight.failure or news.reason)


def _why_no_more(seat: "Seat", played: Played, news: News) -> str:
    """Let the policy see what came; the reason when it has no more to say."""
    flight = played.flight
    if played.cut:
        return "length"
    if news.number >= played.turn_limit:
        return TURN_LIMIT
    flight.wishes, flight.has_stopped = news.wishes, False
    try:
        said = messages(news.observation)
        if news.number == 0:
            if reason := _begin(seat, flight, seat.episodes.first_words(flight, news), news.tools):
                seat.episodes.refuses(played, reason)
            return flight.failure
        passage = seat.speaker.passage(flight.script.prompt, said, scripts.shown_in(seat, said))
        begun = _begun_with(passage, seat, flight)
        text = text_of(news.observation) + flight.wishes.prefix
        follow_up = FollowUp(text, begun.token_ids, begun.pictures)
    except (NoDialogue, TemplateError, Unreadable) as why:
        seat.episodes.breaks(played, f"the policy's chat template cannot take its observation: {why}")
        return flight.failure
    offset = len(flight.token_ids)
    follow_up = flight.hear_out(follow_up)
    if follow_up is None:
        return "length"
    seat.writer.turn(flight.rollout_id, offset, len(follow_up.token_ids), follow_up.text)
    return ""


def _begin(seat: "Seat", flight: Flight, said: list[dict], tools: Sequence[dict]) -> str:
    """The first observation completes the prompt, or is all of it."""
    if flight.wishes.raw:
        prompt = Spelt(seat.speaker.bare_ids(said[0]["content"]))
    else:
        prompt = seat.speaker.prompt(said, tools, scripts.shown_in(seat, said))
        prompt = _begun_with(prompt, seat, flight)
    flight.script = scripts.heard(seat, flight.script, said, prompt)
    seat.writer.started(flight.rollout_id, flight.claim.group_id, text_in(said[-1]["content"]), seat.version)
    if not prompt.token_ids:
        flight.failure = "the prompt has no tokens"
    elif flight.room < 1:
        flight.failure = f"the prompt's {len(flight.script.prompt_ids)} tokens leave no room for an answer"
    return flight.failure


def _begun_with(prompt: Spelt, seat: "Seat", flight: Flight) -> Spelt:
    """Return the prompt with the beginning of the policy's message that it does not choose."""
    begun = seat.speaker.encoder.answer_ids(flight.wishes.prefix) if flight.wishes.prefix else ()
    return Spelt((*prompt.token_ids, *begun), prompt.pictures)
