"""The predefined reasons for skipping an item or flagging a reply, one digit key each.

Free text is accepted as well.
"""

SKIPS = (
    "I can’t tell",
    "Takes too long",
    "Not my language or field",
    "I don’t want to read this",
)
FLAGS = ("Cut off or empty", "Not readable", "Broken task", "Harmful or private")
