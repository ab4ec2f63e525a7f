"""Taking an item to decide: one statement finds the most urgent open slot and holds it, one more fetches what is shown.

SKIP LOCKED: two people never wait for each other and never take the same slot. Two windows of one person claim in turn, so that
together they never hold more than the run allows. The lease runs on the database's clock and the fence makes whoever held
the slot before powerless.
"""

import json
import zlib
from dataclasses import dataclass

from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from apps.accounts.locking import lock, lock_first, unit_of_work
from apps.accounts.models import Membership, User
from apps.feedback.models import Item, Skip, Slot
from apps.feedback.prepared import prepared_cursor
from apps.rollouts.models import Group, Rollout
from apps.runs.people import COMPARES, People

SHORTEST_LEASE_S, USUAL_LEASE_S, LONGEST_LEASE_S = 30.0, 120.0, 1800.0
LEASE_MEDIANS = 3.0  # the lease is so many median decisions long
DECISIONS_LOOKED_AT = 100  # for the median
MOST_AT_ONCE = 20
LARGEST_EDITION = 2**31 - 1


class NotHeld(Exception):
    """The slot is not this person's any more. `next` says in words who has it, or what became of it."""

    def __init__(self, next: str) -> None:
        super().__init__(next)
        self.next = next


@dataclass(frozen=True)
class Member:
    """A rollout as a rater sees it."""

    id: int
    text: str
    rollout: Rollout


@dataclass(frozen=True)
class Held:
    """An item in somebody's hands: what is asked, about what, and until when it is theirs."""

    slot_id: int
    item_id: int
    fence: int
    version: int
    lease_s: float
    form: str
    run_id: int
    run_slug: str
    run_title: str
    project_slug: str
    group_id: int
    draw_index: int | None
    people: People
    prompt: list[dict]
    task_id: int
    deadline_in_s: float | None
    members: tuple[Member, ...]

    @property
    def shown(self) -> list[int]:
        """The rollouts in the order in which they are seen."""
        return [member.id for member in self.members]


# Whose runs ask this person, and how many items more the person may hold of each.
ASKING = """
    SELECT r.id, r.config -> 'people' AS people FROM runs_run r
    WHERE r.state = 'running' AND (%(run)s::bigint IS NULL OR r.id = %(run)s::bigint)
      AND (%(everywhere)s OR EXISTS (
        SELECT 1 FROM accounts_membership m WHERE m.project_id = r.project_id AND m.user_id = %(user)s AND m.role = ANY(%(roles)s)))
      AND (coalesce(jsonb_array_length(r.config #> '{people,raters,people}'), 0)
             + coalesce(jsonb_array_length(r.config #> '{people,raters,groups}'), 0) = 0
        OR r.config #> '{people,raters,people}' ? %(username)s
        OR EXISTS (SELECT 1 FROM accounts_user_groups ug JOIN auth_group g ON g.id = ug.group_id
                   WHERE ug.user_id = %(user)s AND r.config #> '{people,raters,groups}' ? g.name))"""

# Not what the person has decided or passed over, nor what the person wrote a part of; of an item one slot at a time.
# OFFSET 0 keeps each question one about the slot in hand: joined, all that the person ever decided would be read.
OPEN_TO = """
    s.run_id = asking.id AND s.state = 'open'
    AND NOT EXISTS (SELECT 1 FROM feedback_slot o WHERE o.item_id = s.item_id AND o.rater_id = %(user)s AND o.id <> s.id OFFSET 0)
    AND NOT EXISTS (
        SELECT 1 FROM feedback_slot e WHERE e.item_id = s.item_id AND e.place < s.place AND e.state = 'open' OFFSET 0)
    AND NOT EXISTS (SELECT 1 FROM feedback_skip k WHERE k.item_id = s.item_id AND k.rater_id = %(user)s OFFSET 0)
    AND NOT EXISTS (SELECT 1 FROM feedback_intervention v JOIN feedback_item w ON w.id = s.item_id
                    WHERE v.rollout_id = ANY(w.members) AND v.by_id = %(user)s AND v.kind IN ('edit', 'seat')
                        AND v.state = 'done')"""

# An item whose answer is known, at the run's rate: it comes in place of the most urgent one found, so that nobody sees the
# difference, and only when one was found, so that it is a share of decisions. A person meets each of them once.
MIXED_IN = """
    SELECT first.id AS instead, first.due_at, first.lease_s, i.id AS item_id, i.run_id, i.group_id, i.form, i.members,
        (SELECT coalesce(max(o.place), -1) + 1 FROM feedback_slot o WHERE o.item_id = i.id) AS place
    FROM (SELECT found.*, random() AS draw, (SELECT count(*) FROM found) AS many FROM found ORDER BY due_at, id LIMIT 1) first
    CROSS JOIN LATERAL (
        SELECT i.* FROM feedback_item i
        WHERE i.run_id = first.run AND i.state = 'open' AND i.purpose IN ('gold', 'attention') AND i.form = first.form
            AND i.purpose = CASE WHEN first.draw < first.gold * first.many THEN 'gold' ELSE 'attention' END
            AND NOT EXISTS (SELECT 1 FROM feedback_slot o WHERE o.item_id = i.id AND o.rater_id = %(user)s)
            AND NOT EXISTS (SELECT 1 FROM feedback_skip k WHERE k.item_id = i.id AND k.rater_id = %(user)s)
            AND NOT EXISTS (SELECT 1 FROM feedback_intervention v
                            WHERE v.rollout_id = ANY(i.members) AND v.by_id = %(user)s AND v.kind IN ('edit', 'seat')
                                AND v.state = 'done')
        ORDER BY random() LIMIT 1) i
    WHERE first.draw < (first.gold + first.attention) * first.many"""

# Who compares sees the sides in a random order.
SHOWN = """CASE WHEN {item}.form = ANY(%(compares)s)
                THEN ARRAY(SELECT m FROM unnest({item}.members) m ORDER BY random()) ELSE {item}.members END"""

CLAIM = f"""
    WITH asking AS MATERIALIZED ({ASKING}),
    hands AS MATERIALIZED (SELECT feedback_in_hand(%(user)s) AS full),
    room AS MATERIALIZED (
        SELECT asking.id, greatest(0, coalesce((people ->> 'open_claims')::int, 3) - hands.full) AS free,
          coalesce((people ->> 'lease_s')::float, least(%(longest)s, greatest(%(shortest)s, coalesce(%(medians)s * (
            SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) FROM (
                SELECT seconds FROM feedback_rating t WHERE t.run_id = asking.id ORDER BY id DESC LIMIT %(looked_at)s) recent
            WHERE seconds > 0), %(usual)s)))) AS lease_s,
          people ->> 'form' AS form, coalesce((people #>> '{{gold,rate}}')::float, 0) AS gold,
          coalesce((people #>> '{{gold,attention}}')::float, 0) AS attention
        FROM hands CROSS JOIN asking),
    found AS MATERIALIZED (
        SELECT * FROM (
            SELECT s.id, s.due_at, room.id AS run, room.lease_s, room.form, room.gold, room.attention, room.free,
                row_number() OVER (PARTITION BY room.id ORDER BY s.due_at, s.id) AS nth
            FROM room CROSS JOIN LATERAL (
                SELECT s.id, s.due_at FROM (SELECT room.id) asking, feedback_slot s WHERE room.free > 0 AND {OPEN_TO}
                ORDER BY s.due_at, s.id LIMIT %(count)s FOR NO KEY UPDATE OF s SKIP LOCKED) s) s
        WHERE nth <= free ORDER BY due_at, id LIMIT (SELECT least(%(count)s, max(free)) FROM room)),
    mixed_in AS MATERIALIZED ({MIXED_IN}),
    known AS (
        INSERT INTO feedback_slot (item_id, run_id, group_id, place, is_required, state, due_at, rater_id, held_at, lease_until,
            fence, shown)
        SELECT item_id, run_id, group_id, place, false, 'held', due_at, %(user)s, statement_timestamp(),
            statement_timestamp() + lease_s * interval '1 second', 1, {SHOWN.format(item="mixed_in")} FROM mixed_in
        ON CONFLICT DO NOTHING
        RETURNING id, item_id, fence, shown, due_at, group_id, run_id),
    taken AS (
        UPDATE feedback_slot s SET state = 'held', rater_id = %(user)s, fence = s.fence + 1, held_at = statement_timestamp(),
            lease_until = statement_timestamp() + found.lease_s * interval '1 second',
            shown = {SHOWN.format(item="i")}
        FROM found, feedback_item i WHERE s.id = found.id AND i.id = s.item_id
            AND NOT EXISTS (SELECT 1 FROM known, mixed_in WHERE mixed_in.instead = found.id)
        RETURNING s.id, s.item_id, s.fence, s.shown, s.due_at, s.group_id, s.run_id, found.lease_s),
    held AS (SELECT * FROM taken UNION ALL SELECT known.*, mixed_in.lease_s FROM known, mixed_in)
    SELECT taken.id, taken.item_id, taken.fence, i.version, taken.lease_s, i.form, r.id, r.slug, r.title, p.slug, g.id,
        g.draw_index, r.config -> 'people', t.prompt, t.id, extract(epoch FROM g.deadline_at - statement_timestamp()), taken.shown
    FROM held taken JOIN feedback_item i ON i.id = taken.item_id JOIN runs_run r ON r.id = taken.run_id
        JOIN accounts_project p ON p.id = r.project_id JOIN rollouts_group g ON g.id = taken.group_id
        JOIN tasksets_task t ON t.id = g.task_id
    ORDER BY taken.due_at, taken.id"""

# A statement of its own for each number of items: with a number that is not known, its plan would read all that waits.
CLAIMS = {count: CLAIM.replace("%(count)s", str(count)) for count in range(1, MOST_AT_ONCE + 1)}

COUNT = f"""
    WITH asking AS MATERIALIZED ({ASKING})
    SELECT (
        SELECT count(*) FROM (
            SELECT 1 FROM asking CROSS JOIN LATERAL (
                SELECT 1 FROM feedback_slot s WHERE {OPEN_TO} LIMIT %(most)s) s LIMIT %(most)s) bounded),
        (SELECT count(*) FROM feedback_slot h WHERE h.rater_id = %(user)s AND h.state = 'held'
            AND h.lease_until > statement_timestamp()
            AND (%(run)s::bigint IS NULL OR h.run_id = %(run)s::bigint))"""


def claim(user: User, run: int | None = None, count: int = 1) -> list[Held]:
    """Hold up to `count` items for this person, the most urgent first; fewer when fewer wait or the person's hands are full."""
    values = {
        **_asked_by(user, run), "shortest": SHORTEST_LEASE_S, "usual": USUAL_LEASE_S,
        "longest": LONGEST_LEASE_S, "medians": LEASE_MEDIANS, "looked_at": DECISIONS_LOOKED_AT, "compares": sorted(COMPARES),
    }  # fmt: skip
    with prepared_cursor() as cursor:
        cursor.execute(CLAIMS[min(count, MOST_AT_ONCE)], values)
        rows = cursor.fetchall()
    return _with_members(rows)


@dataclass(frozen=True)
class Waiting:
    """How many items wait for one person: open to them, and held by them in any window."""

    open: int
    held: int

    @property
    def count(self) -> int:
        return self.open + self.held


def waiting_for(user: User, most: int, run: int | None = None) -> Waiting:
    """Count the items that wait for this person, of one run or of all; open ones up to `most`."""
    with connection.cursor() as cursor:
        cursor.execute(COUNT, {**_asked_by(user, run), "most": most})
        return Waiting(*cursor.fetchone())


def held_by(user: User, slot_id: int) -> Held:
    """What the person holds, as it was claimed. Raises NotHeld."""
    slot = Slot.objects.filter(pk=slot_id, rater=user, state=Slot.State.HELD, lease_until__gt=Now()).first()
    if slot is None:
        raise NotHeld("This item is not in your hands.")
    with connection.cursor() as cursor:
        cursor.execute(AGAIN, {"slot": slot_id})
        return _with_members(cursor.fetchall())[0]


@unit_of_work
def take_again(
    user: User, slots: list[int], fences: list[int] | None = None, run: int | None = None
) -> list[Held]:
    """Those of these slots that the person still holds, under new fences, the one held longest first.

    A page that was loaded anew goes on with what it showed; what the old page says of it afterwards has no power. `fences`, one
    for each slot: what the person holds under another is another window's, and stays there; without, it is taken from there.
    With `run`, items of other runs are given back: the page shows one run only.
    """
    known = None if fences is None else dict(zip(slots, fences, strict=True))
    mine = Slot.objects.filter(pk__in=slots, rater=user, state=Slot.State.HELD, lease_until__gt=Now())
    found = sorted(lock(mine), key=lambda slot: (slot.held_at, slot.pk))
    theirs = [slot for slot in found if known is None or known[slot.pk] == slot.fence]
    still = [slot.pk for slot in theirs if run in (None, slot.run_id)]
    for slot in theirs:
        if run not in (None, slot.run_id):
            release(user, slot.pk, slot.fence)
    Slot.objects.filter(pk__in=still).update(fence=F("fence") + 1)
    return [held_by(user, slot) for slot in still]


AGAIN = """
    SELECT s.id, s.item_id, s.fence, i.version, extract(epoch FROM s.lease_until - statement_timestamp())::float, i.form, r.id,
        r.slug, r.title, p.slug, g.id, g.draw_index, r.config -> 'people', t.prompt, t.id,
        extract(epoch FROM g.deadline_at - statement_timestamp()), s.shown
    FROM feedback_slot s JOIN feedback_item i ON i.id = s.item_id JOIN runs_run r ON r.id = s.run_id
        JOIN accounts_project p ON p.id = r.project_id JOIN rollouts_group g ON g.id = s.group_id
        JOIN tasksets_task t ON t.id = g.task_id
    WHERE s.id = %(slot)s"""


def edition(item: Item, people: People) -> int:
    """Which state of an item its answer is about: it changes with the item, and with the scales of a rubric."""
    if item.form != "rubric":
        return item.version
    scales = [scale.model_dump(mode="json") for scale in people.rubric]
    return zlib.crc32(json.dumps([item.version, scales]).encode()) & LARGEST_EDITION


@unit_of_work
def release(user: User, slot_id: int, fence: int) -> None:
    """Give it back untouched; nothing happens when it is not held any more."""
    if held := _in_hand(user, slot_id, fence):
        _put_back(held)


@unit_of_work
def skip(user: User, slot_id: int, fence: int, reason: str) -> None:
    """Pass it over: it goes to others, and not to this person again. Raises NotHeld."""
    held = _in_hand(user, slot_id, fence)
    if held is None:
        raise NotHeld(who_has(slot_id))
    Skip.objects.get_or_create(item_id=held.item_id, rater=user, defaults={"reason": reason[:300]})
    _put_back(held)


def _in_hand(user: User, slot_id: int, fence: int) -> Slot | None:
    """What the person holds under this fence, locked with its group: the deadline closes what is open before or after this."""
    mine = Slot.objects.select_related("group").filter(pk=slot_id, rater=user, fence=fence, state=Slot.State.HELD)
    return lock_first(mine, "group")


def _put_back(held: Slot) -> None:
    """For others, while its group waits for them."""
    waits = not held.is_required or held.group.state == Group.State.WAITING
    Slot.objects.filter(pk=held.pk).update(state=Slot.State.OPEN if waits else Slot.State.CLOSED, rater=None, lease_until=None)


def who_has(slot_id: int) -> str:
    """What became of a slot that somebody has lost, in words; nobody's name, because raters work blind."""
    slot = Slot.objects.filter(pk=slot_id).select_related("group").first()
    if slot is None:
        return "This item is gone."
    return {
        Slot.State.OPEN: "Your time with it ran out and it waits for the next person.",
        Slot.State.HELD: "Your time with it ran out and somebody else is deciding it now.",
        Slot.State.DONE: "Your time with it ran out and somebody else has decided it.",
        Slot.State.CLOSED: "Its group has gone on without it.",
    }[slot.state]


def _asked_by(user: User, run: int | None) -> dict:
    return {
        "user": user.pk, "username": user.username, "everywhere": user.is_superuser, "run": run,
        "roles": [str(role) for role in Membership.MAY_RATE],
    }  # fmt: skip


def _with_members(rows: list[tuple]) -> list[Held]:
    ids = {pk for row in rows for pk in row[-1]}
    found = Rollout.objects.raw("SELECT * FROM rollouts_rollout WHERE id = ANY(%s)", [list(ids)]) if ids else ()
    rollouts = {rollout.pk: rollout for rollout in found}
    return [_held(row, rollouts) for row in rows]


def _held(row: tuple, rollouts: dict[int, Rollout]) -> Held:
    *facts, people, prompt, task_id, deadline_in_s, shown = row
    slot, item, fence, version, lease_s, form, run, slug, title, project, group, draw = facts
    members = tuple(Member(pk, rollouts[pk].text, rollouts[pk]) for pk in shown if pk in rollouts)
    plan = People.model_validate(read_json(people))
    return Held(
        slot, item, fence, edition(Item(form=form, version=version), plan), float(lease_s), form, run, slug, title, project, group,
        draw, plan, read_json(prompt), task_id, None if deadline_in_s is None else float(deadline_in_s), members,
    )  # fmt: skip


def read_json(value: object) -> object:
    """JSON as a raw cursor gives it: decoded already, or as text."""
    return json.loads(value) if isinstance(value, str) else value
