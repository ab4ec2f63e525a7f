"""Claim items: one statement holds the most urgent open slot, one fetches its content.

With SKIP LOCKED, two people never wait for each other and never take the same slot. Two windows of
one person claim in turn, so that together they never hold more than the run allows. The lease runs
on the database's clock, and the fence rejects writes of an earlier holder.
"""

import json
import zlib
from dataclasses import asdict, dataclass
from typing import Any

from django.db import connection
from django.db.models import F

from apps.accounts.locking import lock_first, lock_rows, unit_of_work
from apps.accounts.models import Membership, User
from apps.feedback.models import NORMING, Item, Skip, Slot
from apps.feedback.prepared import prepared_cursor
from apps.rollouts.models import Group, Rollout
from apps.runs.people import COMPARES, People

MIN_LEASE_S = 30.0
USUAL_LEASE_S = 120.0
MAX_LEASE_S = 1800.0
# Length of the lease until a page confirms for the first time that it has the item. So a page that
# is left while it claims does not keep its items from others for long.
UNCONFIRMED_LEASE_S = 30.0
LEASE_MEDIANS = 3.0  # the lease is this many median decisions long
DECISIONS_LOOKED_AT = 100  # for the median duration
MAX_CONCURRENT = 20
MAX_EDITION = 2**31 - 1


class NotHeld(Exception):
    """Raised for a slot that is no longer this person's.

    `next` says what became of the slot.
    """

    def __init__(self, next: str) -> None:
        super().__init__(next)
        self.next = next


@dataclass(frozen=True)
class RunLimit:
    """The most items that a claim takes of a run.

    `first` holds for the run of the most urgent item of all, `other` for the others.
    """

    first: int
    other: int


@dataclass(frozen=True)
class Member:
    """A rollout as a rater sees it."""

    id: int
    text: str
    rollout: Rollout


@dataclass(frozen=True)
class HeldItem:
    """A claimed item: the question, its rollouts, and the end of the lease."""

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
    purpose: str = Item.Purpose.REWARD

    @property
    def shown(self) -> list[int]:
        """Return the rollouts in the order in which they are shown."""
        return [member.id for member in self.members]


# Domains that a run gives to groups of raters without this person.
CLOSED_DOMAINS = """
    SELECT array_agg(given.domain) FROM (
        SELECT split_part(entry, ': ', 1) AS domain
        FROM jsonb_array_elements_text(r.config #> '{people,raters,domain_groups}') entry
            LEFT JOIN accounts_ratergroup g ON g.project_id = r.project_id
                AND g.name = substr(entry, strpos(entry, ': ') + 2)
            LEFT JOIN accounts_ratergroup_members gm
                ON gm.ratergroup_id = g.id AND gm.user_id = %(user)s
        GROUP BY 1 HAVING count(gm.id) = 0) given"""

# Runs that ask this person, and how many more items of each the person may hold.
ASKING = f"""
    SELECT r.id, r.config -> 'people' AS people, ({CLOSED_DOMAINS}) AS closed FROM runs_run r
    WHERE r.state = 'running' AND (%(run)s::bigint IS NULL OR r.id = %(run)s::bigint)
      AND (%(everywhere)s OR EXISTS (
        SELECT 1 FROM accounts_membership m
            WHERE m.project_id = r.project_id AND m.user_id = %(user)s AND m.role = ANY(%(roles)s)))
      AND (coalesce(jsonb_array_length(r.config #> '{{people,raters,people}}'), 0)
             + coalesce(jsonb_array_length(r.config #> '{{people,raters,groups}}'), 0) = 0
        OR r.config #> '{{people,raters,people}}' ? %(username)s
        OR EXISTS (SELECT 1 FROM accounts_ratergroup_members gm
                   JOIN accounts_ratergroup g ON g.id = gm.ratergroup_id
                   WHERE gm.user_id = %(user)s AND g.project_id = r.project_id
                       AND r.config #> '{{people,raters,groups}}' ? g.name))"""

# Excludes what the person has decided, skipped or written a part of, and further slots of an item
# that the person holds. OFFSET 0 makes each check one for the current slot: as a join it would read
# everything that the person ever decided.
OPEN_TO = """
    s.run_id = asking.id AND s.state = 'open'
    AND NOT EXISTS (SELECT 1 FROM feedback_slot o
        WHERE o.item_id = s.item_id AND o.rater_id = %(user)s AND o.id <> s.id OFFSET 0)
    AND NOT EXISTS (
        SELECT 1 FROM feedback_slot e
            WHERE e.item_id = s.item_id AND e.place < s.place AND e.state = 'open' OFFSET 0)
    AND NOT EXISTS (SELECT 1 FROM feedback_skip k
        WHERE k.item_id = s.item_id AND k.rater_id = %(user)s OFFSET 0)
    AND NOT EXISTS (SELECT 1 FROM feedback_intervention v JOIN feedback_item w ON w.id = s.item_id
                    WHERE v.rollout_id = ANY(w.members) AND v.by_id = %(user)s
                        AND v.kind IN ('edit', 'seat')
                        AND v.state = 'done')
    AND (asking.closed IS NULL OR NOT EXISTS (
        SELECT 1 FROM rollouts_group dg JOIN tasksets_task dt ON dt.id = dg.task_id
            WHERE dg.id = s.group_id AND dt.domain = ANY(asking.closed) OFFSET 0))"""

# A norming item of a run that this person has not answered. Until all are answered, the run gives
# the person nothing else.
NORMING_LEFT = """
    SELECT 1 FROM feedback_item n WHERE n.run_id = asking.id AND n.purpose = 'norming'
        AND n.state = 'open' AND NOT EXISTS (SELECT 1 FROM feedback_slot o
            WHERE o.item_id = n.id AND o.rater_id = %(user)s AND o.state = 'done')"""
# Everybody gets norming items in one order, before all others; each person has slots of their own.
NORMING_NEXT = """
    SELECT i.id AS item_id, i.run_id, i.group_id, i.form, i.members, room.lease_s,
        (SELECT coalesce(max(o.place), -1) + 1 FROM feedback_slot o WHERE o.item_id = i.id) AS place
    FROM room CROSS JOIN LATERAL (
        SELECT i.* FROM feedback_item i
        WHERE room.is_norming AND i.run_id = room.id AND i.purpose = 'norming' AND i.state = 'open'
            AND NOT EXISTS (SELECT 1 FROM feedback_slot o
                WHERE o.item_id = i.id AND o.rater_id = %(user)s)
        ORDER BY i.id LIMIT least(room.free, %(count)s)) i
    ORDER BY i.id LIMIT (SELECT least(%(count)s, max(free)) FROM room)"""

# An item with a known answer, at the run's rate. It replaces the most urgent item found, so that
# nobody sees the difference, and only if one was found, so that it is a share of decisions. A
# person gets each of them once.
MIXED_IN = """
    SELECT first.id AS instead, first.due_at, first.lease_s, i.id AS item_id, i.run_id, i.group_id,
        i.form, i.members,
        (SELECT coalesce(max(o.place), -1) + 1 FROM feedback_slot o WHERE o.item_id = i.id) AS place
    FROM (SELECT urgent.*, random() AS draw, (SELECT count(*) FROM urgent) AS many
        FROM urgent ORDER BY due_at, id LIMIT 1) first
    CROSS JOIN LATERAL (
        SELECT i.* FROM feedback_item i
        WHERE i.run_id = first.run AND i.state = 'open' AND i.purpose IN ('gold', 'attention')
            AND i.form = first.form
            AND i.purpose = CASE WHEN first.draw < first.gold * first.many
                THEN 'gold' ELSE 'attention' END
            AND NOT EXISTS (SELECT 1 FROM feedback_slot o
                WHERE o.item_id = i.id AND o.rater_id = %(user)s)
            AND NOT EXISTS (SELECT 1 FROM feedback_skip k
                WHERE k.item_id = i.id AND k.rater_id = %(user)s)
            AND (first.closed IS NULL OR NOT EXISTS (
                SELECT 1 FROM rollouts_group dg JOIN tasksets_task dt ON dt.id = dg.task_id
                    WHERE dg.id = i.group_id AND dt.domain = ANY(first.closed)))
            AND NOT EXISTS (SELECT 1 FROM feedback_intervention v
                            WHERE v.rollout_id = ANY(i.members) AND v.by_id = %(user)s
                                AND v.kind IN ('edit', 'seat')
                                AND v.state = 'done')
        ORDER BY random() LIMIT 1) i
    WHERE first.draw < (first.gold + first.attention) * first.many"""

# Comparisons show the sides in a random order.
SHOWN = """CASE WHEN {item}.form = ANY(%(compares)s)
                THEN ARRAY(SELECT m FROM unnest({item}.members) m
                    ORDER BY random()) ELSE {item}.members END"""

UNTIL = """statement_timestamp()
                + least(lease_s, %(unconfirmed)s::float) * interval '1 second'"""

# The most items of a run that this claim takes (`RunLimit`).
CLAIM_LIMIT = """CASE WHEN %(limits)s::jsonb IS NULL THEN %(count)s ELSE
            coalesce((%(limits)s::jsonb #>> ARRAY[asking.id::text, '{of}'])::int, 0) END"""

CLAIM = f"""
    WITH asking AS MATERIALIZED ({ASKING}),
    hands AS MATERIALIZED (SELECT feedback_in_hand(%(user)s) AS full),
    room AS MATERIALIZED (
        SELECT asking.id, asking.closed, greatest(0,
            coalesce((people ->> 'open_claims')::int, 3) - hands.full) AS free,
          coalesce((people ->> 'lease_s')::float,
              least(%(max_lease_s)s, greatest(%(shortest)s, coalesce(%(medians)s * (
            SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) FROM (
                SELECT seconds FROM feedback_rating t
                    WHERE t.run_id = asking.id ORDER BY id DESC LIMIT %(looked_at)s) recent
            WHERE seconds > 0), %(usual)s)))) AS lease_s,
          people ->> 'form' AS form, coalesce((people #>> '{{gold,rate}}')::float, 0) AS gold,
          coalesce((people #>> '{{gold,attention}}')::float, 0) AS attention,
          EXISTS ({NORMING_LEFT}) AS is_norming,
          {CLAIM_LIMIT.format(of="first")} AS max_first,
          {CLAIM_LIMIT.format(of="other")} AS max_other
        FROM hands CROSS JOIN asking),
    norming AS MATERIALIZED ({NORMING_NEXT}),
    urgent AS MATERIALIZED (
        SELECT * FROM (
            SELECT s.id, s.due_at, room.id AS run, room.lease_s, room.form, room.gold,
                room.attention, room.free, room.closed, room.max_first, room.max_other,
                first_value(room.id) OVER (ORDER BY s.due_at, s.id) AS first,
                row_number() OVER (PARTITION BY room.id ORDER BY s.due_at, s.id) AS nth
            FROM room CROSS JOIN LATERAL (
                SELECT s.id, s.due_at
                    FROM (SELECT room.id, room.closed) asking, feedback_slot s
                    WHERE room.free > 0 AND NOT room.is_norming
                        AND NOT EXISTS (SELECT 1 FROM norming) AND {OPEN_TO}
                ORDER BY s.due_at, s.id LIMIT %(count)s FOR NO KEY UPDATE OF s SKIP LOCKED) s) s
        WHERE nth <= least(free, CASE WHEN run = first THEN max_first ELSE max_other END)
        ORDER BY due_at, id LIMIT (SELECT least(%(count)s, max(free)) FROM room)),
    mixed_in AS MATERIALIZED ({MIXED_IN}),
    gold_slots AS (
        INSERT INTO feedback_slot (item_id, run_id, group_id, place, is_required, state, due_at,
            rater_id, held_at, lease_until, lease_s,
            fence, shown)
        SELECT item_id, run_id, group_id, place, false, 'held', due_at, %(user)s,
            statement_timestamp(),
            {UNTIL}, lease_s, 1,
                {SHOWN.format(item="mixed_in")} FROM mixed_in
        ON CONFLICT DO NOTHING
        RETURNING id, item_id, fence, shown, due_at, group_id, run_id),
    normed AS (
        INSERT INTO feedback_slot (item_id, run_id, group_id, place, is_required, state, due_at,
            rater_id, held_at, lease_until, lease_s, fence, shown)
        SELECT item_id, run_id, group_id, place, false, 'held', statement_timestamp(), %(user)s,
            statement_timestamp(), {UNTIL}, lease_s, 1, {SHOWN.format(item="norming")} FROM norming
        ON CONFLICT DO NOTHING
        RETURNING id, item_id, fence, shown, due_at, group_id, run_id, lease_s),
    taken AS (
        UPDATE feedback_slot s SET state = 'held', rater_id = %(user)s, fence = s.fence + 1,
            held_at = statement_timestamp(), lease_s = urgent.lease_s,
            lease_until = {UNTIL.replace("lease_s", "urgent.lease_s")},
            shown = {SHOWN.format(item="i")}
        FROM urgent, feedback_item i WHERE s.id = urgent.id AND i.id = s.item_id
            AND NOT EXISTS (SELECT 1 FROM gold_slots, mixed_in WHERE mixed_in.instead = urgent.id)
        RETURNING s.id, s.item_id, s.fence, s.shown, s.due_at, s.group_id, s.run_id,
            urgent.lease_s),
    held AS (SELECT * FROM taken
        UNION ALL SELECT gold_slots.*, mixed_in.lease_s FROM gold_slots, mixed_in
        UNION ALL SELECT * FROM normed)
    SELECT taken.id, taken.item_id, taken.fence, i.version,
        least(taken.lease_s, %(unconfirmed)s::float), i.form, r.id, r.slug,
        r.title, p.slug, g.id,
        g.draw_index, i.purpose, r.config -> 'people', t.prompt, t.id, extract(epoch
            FROM g.deadline_at - statement_timestamp()), taken.shown
    FROM held taken JOIN feedback_item i ON i.id = taken.item_id
        JOIN runs_run r ON r.id = taken.run_id
        JOIN accounts_project p ON p.id = r.project_id
            JOIN rollouts_group g ON g.id = taken.group_id
        JOIN tasksets_task t ON t.id = g.task_id
    ORDER BY taken.due_at, taken.item_id, taken.id"""

# One statement per number of items: with an unknown number the plan would read all waiting items.
CLAIMS = {count: CLAIM.replace("%(count)s", str(count)) for count in range(1, MAX_CONCURRENT + 1)}

NORMING_OPEN = """
    SELECT 1 FROM feedback_item n WHERE n.run_id = asking.id AND n.purpose = 'norming'
        AND n.state = 'open' AND NOT EXISTS (SELECT 1 FROM feedback_slot o
            WHERE o.item_id = n.id AND o.rater_id = %(user)s)"""

COUNT = f"""
    WITH asking AS MATERIALIZED ({ASKING})
    SELECT (
        SELECT count(*) FROM (
            SELECT 1 FROM asking CROSS JOIN LATERAL (
                SELECT 1 FROM feedback_slot s
                    WHERE {OPEN_TO} LIMIT %(limit)s) s
            UNION ALL SELECT 1 FROM asking CROSS JOIN LATERAL ({NORMING_OPEN}) n
            LIMIT %(limit)s) bounded),
        (SELECT count(*) FROM feedback_slot h WHERE h.rater_id = %(user)s AND h.state = 'held'
            AND h.lease_until > statement_timestamp()
            AND (%(run)s::bigint IS NULL OR h.run_id = %(run)s::bigint))"""


# The same for each run: what is open to this person, and what the person holds.
COUNT_OF_EACH = f"""
    WITH asking AS MATERIALIZED ({ASKING})
    SELECT run, sum(items)::int AS items FROM (
        SELECT asking.id AS run, open.items FROM asking CROSS JOIN LATERAL (
            SELECT count(*) AS items FROM ((
                SELECT 1 FROM feedback_slot s WHERE {OPEN_TO} LIMIT %(limit)s)
                UNION ALL {NORMING_OPEN}) bounded) open
        UNION ALL
        SELECT h.run_id, count(*) FROM feedback_slot h WHERE h.rater_id = %(user)s
            AND h.state = 'held' AND h.lease_until > statement_timestamp() GROUP BY h.run_id
    ) counted
    GROUP BY run HAVING sum(items) > 0 ORDER BY items DESC, run DESC LIMIT %(runs)s"""


def claim(
    user: User,
    run: int | None = None,
    count: int = 1,
    unconfirmed_s: float | None = None,
    limits: dict[int, RunLimit] | None = None,
) -> list[HeldItem]:
    """Claim up to `count` items for this person, the most urgent first.

    Fewer are claimed if fewer wait or the person holds as many as allowed. Items of a norming round
    come before all others. `unconfirmed_s`: the lease ends after so many seconds unless it is
    renewed by then; after a renewal it has its full length. `limits`: the most of each run; they
    don't hold for norming items, which each person gets for themselves.
    """
    values = {
        **asked_by(user, run),
        "unconfirmed": unconfirmed_s,
        "shortest": MIN_LEASE_S,
        "usual": USUAL_LEASE_S,
        "max_lease_s": MAX_LEASE_S,
        "medians": LEASE_MEDIANS,
        "looked_at": DECISIONS_LOOKED_AT,
        "compares": sorted(COMPARES),
        "limits": None if limits is None else _limits_json(limits),
    }
    with prepared_cursor() as cursor:
        cursor.execute(CLAIMS[min(count, MAX_CONCURRENT)], values)
        rows = cursor.fetchall()
    return _with_members(rows)


def _limits_json(limits: dict[int, RunLimit]) -> str:
    return json.dumps({str(pk): asdict(limit) for pk, limit in limits.items()})


@dataclass(frozen=True)
class WaitingCount:
    """The number of items that wait for one person: open ones, and those held in any window."""

    open: int
    held: int

    @property
    def count(self) -> int:
        return self.open + self.held


def waiting_for(user: User, limit: int, run: int | None = None) -> WaitingCount:
    """Count the items that wait for this person, of one run or of all; open ones up to `limit`."""
    with connection.cursor() as cursor:
        cursor.execute(COUNT, {**asked_by(user, run), "limit": limit})
        return WaitingCount(*cursor.fetchone())


def waiting_by_run(user: User, limit: int, runs: int) -> dict[int, int]:
    """Count the items that wait for this person in each run, by run id, the largest number first.

    Open items of a run are counted up to `limit`, and at most so many `runs` are returned.
    """
    with connection.cursor() as cursor:
        values = {**asked_by(user, None), "limit": limit, "runs": runs}
        cursor.execute(COUNT_OF_EACH, values)
        return dict(cursor.fetchall())


def held_by(user: User, slot_id: int) -> HeldItem:
    """Return an item that the person holds, as it was claimed. Raises NotHeld."""
    slot = Slot.objects.leased().filter(pk=slot_id, rater=user, state=Slot.State.HELD).first()
    if slot is None:
        raise NotHeld("You don’t hold this item.")
    with connection.cursor() as cursor:
        cursor.execute(AGAIN, {"slot": slot_id})
        return _with_members(cursor.fetchall())[0]


@unit_of_work
def take_again(
    user: User, slots: list[int], fences: list[int] | None = None, run: int | None = None
) -> list[HeldItem]:
    """Renew those of these slots that the person still holds, under new fences, oldest first.

    A reloaded page continues with what it showed; later answers from the old page are refused.
    `fences` has one fence for each slot. A slot under another fence belongs to another window, and
    stays there; without `fences`, it is taken from that window. With `run`, items of other runs are
    given back, because the page shows one run only.
    """
    fence_by_slot = None if fences is None else dict(zip(slots, fences, strict=True))
    own_slots = Slot.objects.leased().filter(pk__in=slots, rater=user, state=Slot.State.HELD)
    held_slots = sorted(lock_rows(own_slots), key=lambda slot: (slot.held_at, slot.pk))
    renewed_ids = []
    for slot in held_slots:
        if fence_by_slot is not None and fence_by_slot[slot.pk] != slot.fence:
            continue  # of another window
        if run in (None, slot.run_id):
            renewed_ids.append(slot.pk)
        else:
            give_back_item(user, slot.pk, slot.fence)
    Slot.objects.filter(pk__in=renewed_ids).update(fence=F("fence") + 1)
    return [held_by(user, pk) for pk in renewed_ids]


AGAIN = """
    SELECT s.id, s.item_id, s.fence, i.version, extract(epoch
        FROM s.lease_until - statement_timestamp())::float, i.form, r.id,
        r.slug, r.title, p.slug, g.id, g.draw_index, i.purpose, r.config -> 'people', t.prompt,
        t.id,
        extract(epoch FROM g.deadline_at - statement_timestamp()), s.shown
    FROM feedback_slot s JOIN feedback_item i ON i.id = s.item_id JOIN runs_run r ON r.id = s.run_id
        JOIN accounts_project p ON p.id = r.project_id JOIN rollouts_group g ON g.id = s.group_id
        JOIN tasksets_task t ON t.id = g.task_id
    WHERE s.id = %(slot)s"""


def edition(item: Item, people: People) -> int:
    """Return the item's edition, which changes with the item or a rubric's scales."""
    if item.form != "rubric":
        return item.version
    scales = [scale.model_dump(mode="json") for scale in people.rubric]
    return zlib.crc32(json.dumps([item.version, scales]).encode()) & MAX_EDITION


@unit_of_work
def give_back_item(user: User, slot_id: int, fence: int) -> None:
    """Give the item back undecided; do nothing if it is no longer held."""
    if slot := _lock_held_slot(user, slot_id, fence):
        _reopen_or_close(slot)


@unit_of_work
def skip(user: User, slot_id: int, fence: int, reason: str) -> None:
    """Skip the item: others may get it, but this person does not again. Raises NotHeld."""
    slot = _lock_held_slot(user, slot_id, fence)
    if slot is None:
        raise NotHeld(who_has(slot_id))
    if slot.item.purpose == NORMING:
        raise NotHeld("Everybody rates the norming items, so you can’t skip one.")
    Skip.objects.get_or_create(item_id=slot.item_id, rater=user, defaults={"reason": reason[:300]})
    _reopen_or_close(slot)


def _lock_held_slot(user: User, slot_id: int, fence: int) -> Slot | None:
    """Return the slot that the person holds under this fence, locked with its group.

    So the group's deadline is processed before or after this, never meanwhile.
    """
    held_slots = Slot.objects.select_related("group", "item").filter(
        pk=slot_id, rater=user, fence=fence, state=Slot.State.HELD
    )
    return lock_first(held_slots, "group")


def _reopen_or_close(slot: Slot) -> None:
    """Reopen the slot for others while its group waits for them, otherwise close it.

    The slot of a norming item is deleted, because only this person gets one again.
    """
    if slot.item.purpose == NORMING:
        Slot.objects.filter(pk=slot.pk).delete()
        return
    waits = not slot.is_required or slot.group.state == Group.State.WAITING
    Slot.objects.filter(pk=slot.pk).update(
        state=Slot.State.OPEN if waits else Slot.State.CLOSED, rater=None, **Slot.FREED
    )


def who_has(slot_id: int) -> str:
    """Return what became of a slot that somebody has lost.

    It names nobody, since raters work blind.
    """
    slot = Slot.objects.filter(pk=slot_id).select_related("group").first()
    if slot is None:
        return "This item no longer exists."
    return {
        Slot.State.OPEN: "Your time ran out. The item is waiting for the next rater.",
        Slot.State.HELD: "Your time ran out. Another rater has this item now.",
        Slot.State.DONE: "Your time ran out. Another rater has rated this item.",
        Slot.State.CLOSED: "The group of this item is closed.",
    }[Slot.State(slot.state)]


def asked_by(user: User, run: int | None) -> dict:
    """Return the values of `ASKING`: this person, and one run or all."""
    return {
        "user": user.pk,
        "username": user.username,
        "everywhere": user.is_superuser,
        "run": run,
        "roles": [str(role) for role in Membership.MAY_RATE],
    }


def _with_members(rows: list[tuple]) -> list[HeldItem]:
    ids = {pk for row in rows for pk in row[-1]}
    members = (
        Rollout.objects.raw("SELECT * FROM rollouts_rollout WHERE id = ANY(%s)", [list(ids)])
        if ids
        else ()
    )
    rollouts = {rollout.pk: rollout for rollout in members}
    return [_build_held_item(row, rollouts) for row in rows]


def _build_held_item(row: tuple, rollouts: dict[int, Rollout]) -> HeldItem:
    *facts, purpose, people, prompt, task_id, deadline_in_s, shown_ids = row
    slot, item, fence, version, lease_s, form, run, slug, title, project, group, draw = facts
    members = tuple(
        Member(pk, rollouts[pk].text, rollouts[pk]) for pk in shown_ids if pk in rollouts
    )
    plan = People.model_validate(read_json(people))
    return HeldItem(
        slot,
        item,
        fence,
        edition(Item(form=form, version=version), plan),
        float(lease_s),
        form,
        run,
        slug,
        title,
        project,
        group,
        draw,
        plan,
        read_json(prompt),
        task_id,
        None if deadline_in_s is None else float(deadline_in_s),
        members,
        purpose,
    )


def read_json(value: object) -> Any:
    """Return JSON as a raw cursor gives it, decoded already or as text, in decoded form."""
    return json.loads(value) if isinstance(value, str) else value
