"""OpenAssistant: trees of messages with ranks, whole or with each message in a row of its own."""

from collections.abc import Iterator, Sequence

from apps.tasksets.layouts.comparisons import ordered_pairs
from apps.tasksets.layouts.contract import (
    DEMONSTRATIONS,
    PREFERENCES,
    Gathering,
    Layout,
    NotGood,
    NotThisLayout,
    Row,
    RowReading,
    is_finite_number,
    require_text,
)
from apps.tasksets.layouts.conversations import Message

# What is read of a message that stands in a row of its own.
OF_MESSAGE = ("text", "role", "rank", "deleted", "review_result")
# States of trees that were given up because people found them bad.
BAD_TREES = ("aborted_low_grade", "halted_by_moderator")


def _is_oasst_tree(row: Row) -> bool:
    first = row.get("prompt")
    return isinstance(first, dict) and isinstance(first.get("replies"), list) and "text" in first


def _is_removed(message: Row) -> bool:
    return bool(message.get("deleted")) or message.get("review_result") is False


ROLES = {"prompter": "user", "assistant": "assistant"}


def _turns(row: Row, taking: RowReading) -> Iterator[tuple[list[Message], list[Row]]]:
    """Yield (messages so far, the answers to them) of each question in the tree; removed
    messages are not taken."""
    pending: list[tuple[list[Message], Row]] = [([], row["prompt"])]
    while pending:
        before, message = pending.pop(0)
        role = message.get("role")
        if not isinstance(role, str) or role not in ROLES:
            raise NotThisLayout(f"prompt: the role must be prompter or assistant, not {role!r}")
        role = ROLES[role]
        so_far = [*before, {"role": role, "content": require_text(message, "text")}]
        replies = message.get("replies") or []
        if not isinstance(replies, list) or not all(isinstance(reply, dict) for reply in replies):
            raise NotThisLayout("prompt.replies: must be a list of messages")
        accepted = [reply for reply in replies if not _is_removed(reply)]
        if len(accepted) < len(replies):
            taking.dropped.add("replies that were deleted or rejected in review")
        if role == "user" and accepted:
            yield so_far, accepted
        pending += [(so_far, reply) for reply in accepted]


def _oasst_pairs(row: Row, taking: RowReading) -> list[Row]:
    taking.dropped.add("labels, emojis and user ids of messages")
    rows = []
    for prompt, answers in _turns(row, taking):
        ranked = [
            (require_text(answer, "text"), -float(answer["rank"]))
            for answer in answers
            if is_finite_number(answer.get("rank"))
        ]
        rows += [{"prompt": prompt, **{**pair, "margin": None}} for pair in ordered_pairs(ranked)]
    if not rows:
        raise NotThisLayout("prompt.replies: no two replies have different ranks")
    return rows


def _oasst_best(row: Row, taking: RowReading) -> list[Row]:
    if row.get("tree_state") in BAD_TREES:
        raise NotGood(f"tree_state: is {row['tree_state']}, so people found this tree bad")
    if _is_removed(row["prompt"]):
        raise NotGood("prompt: was deleted or rejected in review")
    taking.dropped.add("answers ranked below the best, and labels of messages")
    rows = []
    for prompt, answers in _turns(row, taking):
        ranked = [answer for answer in answers if is_finite_number(answer.get("rank"))]
        if len(answers) > 1 and not ranked:
            continue  # nobody said which is the best
        best = min(ranked, key=lambda answer: answer["rank"]) if ranked else answers[0]
        rows.append({"prompt": prompt, "answer": require_text(best, "text")})
    if not rows:
        raise NotThisLayout("prompt.replies: no reply has a rank")
    return rows


def _is_oasst_message(row: Row) -> bool:
    names = ("message_id", "message_tree_id", "text", "role")
    return all(isinstance(row.get(name), str) for name in names)


def _tree(rows: Sequence[Row]) -> Row:
    """Return the tree that these messages form. Raises NotThisLayout where one of them is lost."""
    messages: dict[str, Row] = {
        row["message_id"]: {**{name: row.get(name) for name in OF_MESSAGE}, "replies": []}
        for row in rows
    }
    roots = [row for row in rows if row.get("parent_id") in (None, "")]
    if len(roots) != 1:
        raise NotThisLayout(
            f"parent_id: {len(roots)} of the {len(rows)} messages in a row with this "
            "message_tree_id begin the tree, not one; sort the file by message_tree_id"
        )
    for row in rows:
        parent = row.get("parent_id")
        if parent in (None, ""):
            continue
        if parent not in messages:
            raise NotThisLayout(
                f"parent_id: no message {parent!r} with the same message_tree_id stands beside "
                "this one; sort the file by message_tree_id"
            )
        messages[parent]["replies"].append(messages[row["message_id"]])
    tree = {"prompt": messages[roots[0]["message_id"]]}
    return tree | {name: roots[0][name] for name in ("tree_state",) if name in roots[0]}


READS = {PREFERENCES: _oasst_pairs, DEMONSTRATIONS: _oasst_best}
LAYOUTS = (
    Layout("oasst-trees", "OpenAssistant: trees of messages with ranks", _is_oasst_tree, READS),
    Layout(
        "oasst-messages",
        "OpenAssistant: single messages, put together to trees",
        _is_oasst_message,
        READS,
        gathering=Gathering(lambda row: row["message_tree_id"], _tree, "oasst-trees"),
    ),
)
