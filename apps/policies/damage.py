"""The exception for a refused folder of weights: a kind, a file and a sentence.

Everything that reads weights raises `DamagedWeights`; tests, pages and metrics count by its kind,
people read its detail.
"""

from enum import StrEnum


class Damage(StrEnum):
    """The kinds of damage that a folder of weights can have."""

    HALF_WRITTEN = "half-written"
    MISSING_FILE = "missing file"
    UNSAFE_FILE = "unsafe file"
    REMOTE_CODE = "remote code"
    BAD_CONFIG = "bad config"
    BAD_INDEX = "bad index"
    BAD_HEADER = "bad header"
    BAD_MANIFEST = "bad manifest"
    TRUNCATED = "truncated"
    CHECKSUM = "checksum mismatch"
    NOT_FINITE = "not finite"
    DUPLICATE_TENSOR = "duplicate tensor"
    MISSING_TENSOR = "missing tensor"
    EXTRA_TENSOR = "extra tensor"
    WRONG_SHAPE = "wrong shape"
    WRONG_DTYPE = "wrong dtype"


class DamagedWeights(Exception):
    """A folder of weights that must not be served or trained.

    `kind` is a `Damage`, `file` the offending name inside the folder, `detail` one sentence for a
    person.
    """

    def __init__(self, kind: Damage, file: str, detail: str) -> None:
        super().__init__(f"{kind}: {file}: {detail}")
        self.kind = kind
        self.file = file
        self.detail = detail

    def __reduce__(self) -> tuple:
        return type(self), (self.kind, self.file, self.detail)
