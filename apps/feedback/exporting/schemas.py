"""The columns of each export, with types; conversations are lists of {role, content}, as in TRL."""

import pyarrow as arrow

TEXT = arrow.string()
WHOLE = arrow.int64()
REAL = arrow.float64()
YES = arrow.bool_()
TIME = arrow.timestamp("us", tz="UTC")
MESSAGES = arrow.list_(arrow.struct([("role", TEXT), ("content", TEXT)]))
RUN = {"run": TEXT, "taskset": TEXT, "task": WHOLE}

COLUMNS: dict[str, dict[str, arrow.DataType]] = {
    # One row per rating; replaced and withdrawn ones are included and marked.
    "votes": {
        "rating": WHOLE,
        **RUN,
        "group": WHOLE,
        "item": WHOLE,
        "form": TEXT,
        "purpose": TEXT,
        "answer": TEXT,
        "critique": TEXT,
        "rater": TEXT,
        "is_simulated": YES,
        "prompt": MESSAGES,
        "rollouts": arrow.list_(WHOLE),
        "texts": arrow.list_(TEXT),
        "values": arrow.list_(REAL),
        "is_current": YES,
        "is_withdrawn": YES,
        "is_late": YES,
        "replaces": WHOLE,
        "seconds": REAL,
        "at": TIME,
    },
    # GRPO: a prompt and its answers with their rewards.
    "groups": {
        "prompt": MESSAGES,
        "completions": arrow.list_(MESSAGES),
        "rewards": arrow.list_(REAL),
        "advantages": arrow.list_(REAL),
        "people": arrow.list_(REAL),
        "simulated": arrow.list_(REAL),
        "uncertainties": arrow.list_(REAL),
        "versions": arrow.list_(WHOLE),
        "rollouts": arrow.list_(WHOLE),
        **RUN,
        "group": WHOLE,
        "step": WHOLE,
    },
    # DPO and reward models: preference data with an explicit prompt and a margin.
    "pairs": {
        "prompt": MESSAGES,
        "chosen": MESSAGES,
        "rejected": MESSAGES,
        "margin": REAL,
        "author": TEXT,
        "is_simulated": YES,
        "source": TEXT,
        **RUN,
        "chosen_rollout": WHOLE,
        "rejected_rollout": WHOLE,
        "at": TIME,
    },
    # SFT: conversations with the right last answer.
    "demonstrations": {
        "messages": MESSAGES,
        "author": TEXT,
        "is_simulated": YES,
        "source": TEXT,
        **RUN,
        "at": TIME,
    },
    # PRM: stepwise supervision.
    "turn_labels": {
        "prompt": TEXT,
        "prompt_messages": MESSAGES,  # the same with roles: TRL wants one text
        "completions": arrow.list_(TEXT),
        "labels": arrow.list_(YES),
        "marks": arrow.list_(WHOLE),
        "author": TEXT,
        "is_simulated": YES,
        **RUN,
        "rollout": WHOLE,
        "at": TIME,
    },
}
KINDS = tuple(COLUMNS)


def export_schema(kind: str) -> arrow.Schema:
    return arrow.schema(list(COLUMNS[kind].items()))
