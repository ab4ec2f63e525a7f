"""The columns of each export, with their types; conversations are lists of {role, content}, as TRL reads them."""

import pyarrow as arrow

TEXT, WHOLE, REAL, YES, TIME = arrow.string(), arrow.int64(), arrow.float64(), arrow.bool_(), arrow.timestamp("us", tz="UTC")
MESSAGES = arrow.list_(arrow.struct([("role", TEXT), ("content", TEXT)]))
RUN = {"run": TEXT, "taskset": TEXT, "task": WHOLE}

COLUMNS: dict[str, dict[str, arrow.DataType]] = {
    # One row for each thing said; what was replaced or taken back is there and says so.
    "votes": {
        "rating": WHOLE, **RUN, "group": WHOLE, "item": WHOLE, "form": TEXT, "purpose": TEXT, "answer": TEXT, "critique": TEXT,
        "rater": TEXT, "is_simulated": YES, "prompt": MESSAGES, "rollouts": arrow.list_(WHOLE), "texts": arrow.list_(TEXT),
        "values": arrow.list_(REAL), "is_current": YES, "is_withdrawn": YES, "is_late": YES, "replaces": WHOLE, "seconds": REAL,
        "at": TIME,
    },
    # GRPO: a prompt and its answers with what they were worth.
    "groups": {
        "prompt": MESSAGES, "completions": arrow.list_(MESSAGES), "rewards": arrow.list_(REAL), "advantages": arrow.list_(REAL),
        "people": arrow.list_(REAL), "simulated": arrow.list_(REAL),
        "uncertainties": arrow.list_(REAL), "versions": arrow.list_(WHOLE),
        "rollouts": arrow.list_(WHOLE), **RUN, "group": WHOLE, "step": WHOLE,
    },
    # DPO and reward models: preference data with an explicit prompt and a margin.
    "pairs": {
        "prompt": MESSAGES, "chosen": MESSAGES, "rejected": MESSAGES, "margin": REAL, "author": TEXT, "is_simulated": YES,
        "source": TEXT, **RUN, "chosen_rollout": WHOLE, "rejected_rollout": WHOLE, "at": TIME,
    },
    # SFT: conversations that end as they should.
    "demonstrations": {"messages": MESSAGES, "author": TEXT, "is_simulated": YES, "source": TEXT, **RUN, "at": TIME},
    # PRM: stepwise supervision.
    "turn_labels": {
        "prompt": TEXT, "completions": arrow.list_(TEXT), "labels": arrow.list_(YES), "marks": arrow.list_(WHOLE), "author": TEXT,
        "is_simulated": YES, **RUN, "rollout": WHOLE, "at": TIME,
    },
}  # fmt: skip
KINDS = tuple(COLUMNS)


def schema_of(kind: str) -> arrow.Schema:
    return arrow.schema(list(COLUMNS[kind].items()))
