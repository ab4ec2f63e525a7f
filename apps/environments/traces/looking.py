"""First pass over a file of episodes: check each line, and remember its position and group."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from apps.environments.traces.reading import MAX_LINE_BYTES, BadLine, Line, read_trace_line
from apps.policies.fingerprint import tokenizer_fingerprint, vocabulary
from apps.policies.models import Policy
from apps.rollouts.payload import Tokens

LISTED = 20  # bad lines that an error lists; the rest are counted
MAX_EPISODES = 100_000  # the most episodes of one file
CHUNK = 1 << 20


class BadEpisodes(ValueError):
    """Raised for a refused file, of which nothing was stored.

    The message names lines and fields.
    """


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the file: its number, from 1, its offset, and its length in bytes.

    `task` is the digest of the task's content, `index` its number in the taskset.
    """

    number: int
    offset: int
    size: int
    group: str
    environment: str
    taskset: str | None
    task: str
    index: int | None
    sample: int | None


class File:
    """An open file, of which one line at a time is in memory. `same_tokenizer` is Destination's."""

    def __init__(self, stream: BinaryIO, policy: Policy, same_tokenizer: bool) -> None:
        self.stream = stream
        self.policy = policy
        self.same_tokenizer = same_tokenizer
        self.tokenizer, self.words = tokenizer_fingerprint(policy), vocabulary(policy)

    def entries(self) -> list[Entry]:
        """Check all lines and return their entries. Raises BadEpisodes with the bad lines."""
        checked = []
        problems: list[str] = []
        count = 0
        for number, offset, raw in self._raw():
            if number > MAX_EPISODES:
                raise BadEpisodes(f"has more than {MAX_EPISODES} lines: import it in parts")
            try:
                checked.append(_entry(number, offset, len(raw), self._read(raw)))
            except BadLine as why:
                count += 1
                if len(problems) < LISTED:
                    problems.append(f"line {number}: {why}")
        if count > len(problems):
            problems.append(f"and {count - len(problems)} more")
        if problems:
            raise BadEpisodes("\n".join(problems))
        if not checked:
            raise BadEpisodes("the file contains no episode")
        return checked

    def line(self, entry: Entry) -> Line:
        """Read an entry's line again. Raises BadEpisodes if it has changed."""
        self.stream.seek(entry.offset)
        try:
            line = self._read(self.stream.read(entry.size))
            if _entry(entry.number, entry.offset, entry.size, line) == entry:
                return line
        except BadLine:
            pass
        raise BadEpisodes(f"line {entry.number}: the file changed while it was read")

    def _raw(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield (number, offset, line); a line that is too long is cut just above the limit."""
        number = offset = 0
        while raw := self.stream.readline(MAX_LINE_BYTES + 2):
            number += 1
            yield number, offset, raw
            while raw and not raw.endswith(b"\n"):
                raw = self.stream.readline(CHUNK)
            offset = self.stream.tell()

    def _read(self, raw: bytes) -> Line:
        line = read_trace_line(raw.rstrip(b"\r\n"))
        if line.pictures and not self.policy.sees_pictures:
            raise BadLine(
                "traces.nodes",
                (f"contain a picture; the policy {self.policy.slug!r} reads only text"),
            )
        if line.tokens is not None:
            self._require_spelling(line, line.tokens)
        return line

    def _require_spelling(self, line: Line, tokens: Tokens) -> None:
        tokenizer = line.own_data.tokenizer if line.own_data else ""
        policy_name = f"the policy {self.policy.slug!r}"
        if tokenizer and tokenizer != self.tokenizer:
            raise BadLine(
                "traces.info.rftweb.tokenizer",
                f"is not that of {policy_name}, so its tokens have other meanings",
            )
        if not tokenizer and not self.same_tokenizer:
            raise BadLine(
                "traces.info",
                f"confirm that its tokens are those of {policy_name} (--same-tokenizer),"
                " if they are",
            )
        largest = max((*tokens.prompt_ids, *tokens.completion_ids))
        if self.words and largest >= self.words:
            raise BadLine(
                "traces.nodes.token_ids",
                f"contain {largest}; {policy_name} has {self.words} tokens",
            )


def _entry(number: int, offset: int, size: int, line: Line) -> Entry:
    data = line.episode.task.data
    task = task_digest(line.prompt, line.answer, data.meta)
    sample = line.own_data.sample if line.own_data else None
    return Entry(
        number, offset, size, line.group, line.episode.env.id, data.taskset, task, data.idx, sample
    )


def task_digest(prompt: list[dict], answer: dict, meta: dict) -> str:
    return hashlib.sha256(json.dumps([prompt, answer, meta], sort_keys=True).encode()).hexdigest()


def in_groups(entries: list[Entry]) -> list[list[Entry]]:
    """Return the lines of each group, ordered by the groups' first lines."""
    grouped: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        grouped[entry.group].append(entry)
    return list(grouped.values())
