"""A streamed rollout as the browser sees it: like the explorer, it writes chunks to Redis and
answers interventions in their rows.
"""

import threading
from contextlib import contextmanager

from django.db import connection

from apps.feedback.interventions import list_pending_interventions, mark_done, refuse_intervention
from apps.feedback.models import Intervention
from apps.rollouts.models import Group, Outcome, Rollout
from apps.streaming.chunks import ChunkWriter
from tests.conftest import tokens_of


class Speaker:
    """One rollout of the run's group that is being sampled.

    A test and the thread of `obeying` both write, but only one at a time.
    """

    def __init__(self, run, text: str = "") -> None:
        self.run, self.writer = run, ChunkWriter(run.topic_id)
        self.group = Group.objects.filter(run=run, state=Group.State.SAMPLING).first()
        self.rollout = self.group.rollouts.first()
        self.text = ""
        self.next = 0
        self.edits = 0
        self.speaking = threading.RLock()
        self.writer.started(
            self.rollout.pk, self.group.pk, self.group.task.question, run.published_version
        )
        self.say(text)

    def say(self, text: str) -> None:
        """Stream word by word, one token each, with alternating high and low probability."""
        with self.speaking:
            for word in text.split(" ") if text else []:
                piece = f"{word} "
                self.writer.add(
                    self.rollout.pk,
                    self.next,
                    piece,
                    [-0.05 if len(word) % 3 else -2.5],
                    self.run.published_version,
                )
                self.text += piece
                self.next += 1
            self.writer.flush(at_once=True)

    def edit(self, text: str, by: str) -> None:
        """Replace the text of the turn; the common beginning is kept."""
        keep = next(
            (n for n, (a, b) in enumerate(zip(self.text, text, strict=False)) if a != b),
            min(len(self.text), len(text)),
        )
        kept = self.text[:keep].count(" ")
        typed = text[keep:]
        self.writer.edit(self.rollout.pk, 0, kept, keep, typed, len(typed.split()), by)
        self.text, self.next = text, kept + len(typed.split())
        self.writer.flush(at_once=True)

    def finish(self, stop_reason: str = "stop") -> None:
        """Store the replies of the group as finished; nothing is streamed."""
        text = self.text or "x"
        outcomes = [
            Outcome(r.pk, tokens_of(text), text, stop_reason) for r in self.group.rollouts.all()
        ]
        Group.finish_rollouts({self.group.pk: self.group.claimed}, outcomes)

    def end(self, stop_reason: str = "stop") -> None:
        self.finish(stop_reason)
        self.writer.end(self.rollout.pk, stop_reason)
        self.writer.flush(at_once=True)

    def obey(self, refusing: str = "") -> None:
        """Handle the requested interventions once, as the explorer does in a turn."""
        for intervention in list_pending_interventions([self.rollout.pk]):
            if refusing and intervention.kind != Intervention.Kind.HOLD:
                refuse_intervention(intervention, refusing)
                continue
            match intervention.kind:
                case Intervention.Kind.HOLD:
                    self.writer.held(self.rollout.pk, intervention.by.username, 120)
                case Intervention.Kind.FREE:
                    self.writer.freed(self.rollout.pk)
                case Intervention.Kind.EDIT | Intervention.Kind.SEAT:
                    self.edit(intervention.text, intervention.by.username)
            mark_done(intervention)
            if intervention.kind in (Intervention.Kind.STOP, Intervention.Kind.SEAT):
                self.end(
                    "stopped by a person"
                    if intervention.kind == Intervention.Kind.STOP
                    else "typed by a person"
                )
        self.writer.flush(at_once=True)


@contextmanager
def obeying(speaker: Speaker, refusing: str = ""):
    """Answer interventions in another thread while the block runs."""
    over = threading.Event()

    def listen() -> None:
        try:
            while not over.wait(0.05):
                with speaker.speaking:
                    speaker.obey(refusing)
        finally:
            connection.close()

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def finished(rollout_id: int) -> bool:
    return Rollout.objects.get(pk=rollout_id).state == Rollout.State.FINISHED
