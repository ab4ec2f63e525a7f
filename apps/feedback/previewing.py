"""Preview the lessons of a file before anything of it is stored."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

from apps.feedback.importing import LessonFile
from apps.feedback.reading import LessonLine
from apps.tasksets.sources.records import BadLine

LOOKED_THROUGH = 50_000  # lessons and bad rows that a preview reads
SHOWN = 5
BAD_SHOWN = 20


@dataclass
class LessonPreview:
    """How a file is read, and its first lessons and bad rows; `dropped` as in LessonRows."""

    layout: str = ""
    lessons: int = 0
    bad_rows: int = 0
    good: list[LessonLine] = field(default_factory=list)
    bad: list[BadLine] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        return self.lessons + self.bad_rows

    @property
    def is_cut(self) -> bool:
        """Tell whether the file may contain more."""
        return self.count == LOOKED_THROUGH

    @property
    def not_taken(self) -> list[tuple[str, int]]:
        return sorted(self.dropped.items())


def preview_lessons(file: LessonFile) -> LessonPreview:
    """Return a preview of the file.

    Raises NotReadable, OSError.
    """
    rows = file.rows()
    preview = LessonPreview(rows.layout.title if rows.layout else "", dropped=rows.dropped)
    for line in islice(rows, LOOKED_THROUGH):
        if isinstance(line, LessonLine):
            preview.lessons += 1
            if len(preview.good) < SHOWN:
                preview.good.append(line)
        else:
            preview.bad_rows += 1
            if len(preview.bad) < BAD_SHOWN:
                preview.bad.append(line)
    return preview
