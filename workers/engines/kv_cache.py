"""Key-value cache of the rows that are being generated: one slot per row, preallocated per layer.

Every slot begins at column 0, so rows of any age stand side by side without padding. Admitting a
row writes its slot; retiring a row moves the last slot into its place.

Names used from transformers: `cache_utils.Cache(layers=…)`, `cache_utils.CacheLayerMixin` (`keys`,
`values`, `is_initialized`, `update`, `get_mask_sizes`, `get_seq_length`, `get_max_length`),
`DynamicCache().layers[i].keys`.
"""

from dataclasses import dataclass

import torch
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache

FIRST_ROWS = 16
FIRST_COLUMNS = 64


@dataclass
class Cursor:
    """Write position of the current step: slot `rows[i]` at column `positions[i]`.

    `width` columns are in use.
    """

    rows: torch.Tensor
    positions: torch.Tensor
    width: int = 0


class SlotLayer(CacheLayerMixin):
    """Slots of one layer, (rows, heads, columns, head size); attention calls `update`."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, cursor: Cursor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # the library gives it no types
        self.cursor = cursor

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Start without slots, in the shape and dtype of these states."""
        self.keys = key_states.new_empty(0, key_states.shape[1], 0, key_states.shape[3])
        self.values = value_states.new_empty(0, value_states.shape[1], 0, value_states.shape[3])
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one new column per row, (R, heads, 1, size).

        Returns all columns in use, (R, heads, width, size).
        """
        at = self.cursor
        rows = len(at.rows)
        self.reserve(rows, at.width, key_states, value_states)
        self.keys[at.rows, :, at.positions] = key_states[:, :, 0]
        self.values[at.rows, :, at.positions] = value_states[:, :, 0]
        keys = self.keys[:rows, :, : at.width]
        values = self.values[:rows, :, : at.width]
        return keys, values

    def reserve(
        self, rows: int, columns: int, key_states: torch.Tensor, value_states: torch.Tensor
    ) -> None:
        """Make room for at least this many slots and columns.

        A dimension that must grow is at least doubled.
        """
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.keys = _grown(self.keys, rows, columns)
        self.values = _grown(self.values, rows, columns)

    def write(self, rows: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Fill the first columns of these slots with keys and values (n, heads, length, size)."""
        self.reserve(int(rows.max()) + 1, keys.shape[2], keys, values)
        self.keys[rows, :, : keys.shape[2]] = keys
        self.values[rows, :, : values.shape[2]] = values

    def move(self, to: torch.Tensor, source: torch.Tensor, width: int) -> None:
        """Copy whole slots, up to `width` columns."""
        if self.is_initialized:
            self.keys[to, :, :width] = self.keys[source, :, :width]
            self.values[to, :, :width] = self.values[source, :, :width]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.cursor.width, 0

    def get_seq_length(self) -> int:
        return self.cursor.width - 1

    def get_max_length(self) -> int:
        return -1


class Slots:
    """Slots of all layers, and the cache object that the model is called with."""

    def __init__(self, layers: int, device: torch.device) -> None:
        nothing = torch.zeros(0, dtype=torch.long, device=device)
        self.cursor = Cursor(nothing, nothing)
        self.layers = [SlotLayer(self.cursor) for _ in range(layers)]
        self.cache = Cache(layers=[*self.layers])

    def point(self, positions: torch.Tensor) -> int:
        """Let the next step write row i at `positions[i]`, and return how many columns it reads."""
        self.cursor.rows = torch.arange(len(positions), device=positions.device)
        self.cursor.positions = positions
        self.cursor.width = int(positions.max()) + 1
        return self.cursor.width

    def write(self, prefilled: DynamicCache, owners: list[list[int]]) -> None:
        """Copy the cache of prefilled text j into every slot in `owners[j]`."""
        device = self.cursor.rows.device
        rows = torch.tensor([row for owned in owners for row in owned], device=device)
        texts = torch.tensor(
            [text for text, owned in enumerate(owners) for _ in owned], device=device
        )
        for slots, layer in zip(self.layers, prefilled.layers, strict=True):
            assert isinstance(layer, CacheLayerMixin)
            assert layer.keys is not None and layer.values is not None  # the text was read
            slots.write(rows, layer.keys[texts], layer.values[texts])

    def move(self, to: list[int], source: list[int]) -> None:
        """Copy slots over others."""
        device = self.cursor.rows.device
        to_rows = torch.tensor(to, device=device)
        source_rows = torch.tensor(source, device=device)
        for layer in self.layers:
            layer.move(to_rows, source_rows, self.cursor.width)


def _grown(buffer: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    if rows <= buffer.shape[0] and columns <= buffer.shape[2]:
        return buffer
    rows = _room(buffer.shape[0], rows, FIRST_ROWS)
    columns = _room(buffer.shape[2], columns, FIRST_COLUMNS)
    # Zeros instead of uninitialised memory: a masked column still takes part, and 0 × NaN is NaN.
    grown = buffer.new_zeros(rows, buffer.shape[1], columns, buffer.shape[3])
    grown[: buffer.shape[0], :, : buffer.shape[2]] = buffer
    return grown


def _room(size: int, needed: int, first: int) -> int:
    return size if needed <= size else max(needed, 2 * size, first)
