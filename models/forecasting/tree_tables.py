"""Boosted trees as tables of numbers, evaluated by numpy: one look-up per level for all trees at once.

The library grows the trees and is not needed afterwards: a forecast takes microseconds, a stored model is numbers that
no library version can refuse, and no process that only forecasts must load it (docs/decisions/0005).
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from perdix.telemetry.window import Values

if TYPE_CHECKING:
    import xgboost

LARGEST_BYTES = 64_000_000


@dataclass(frozen=True)
class TreeTables:
    """One sum of trees per lead; every tree is complete, so that nodes need no pointers."""

    # features, thresholds, missing_left: of the inner nodes, in the order of a heap, shape ``(leads, trees, 2**depth -
    # 1)``: left where ``x[feature] < threshold``, or where it is NaN and ``missing_left``
    features: NDArray[np.uint8]
    thresholds: NDArray[np.float32]
    missing_left: NDArray[np.bool_]
    leaves: NDArray[np.float32]  # shape ``(leads, trees, 2**depth)``
    offsets: NDArray[np.float32]  # what is added to the sum of trees, shape ``(leads,)``

    @classmethod
    def of(cls, boosters: list[xgboost.Booster], depth: int) -> Self:
        """Take the numbers out of one fitted booster per lead."""
        parts = [_tables(json.loads(booster.save_raw("json").decode()), depth) for booster in boosters]
        features, thresholds, missing_left, leaves = (np.stack([part[index] for part in parts]) for index in range(4))
        offsets = np.array([part[4] for part in parts], dtype=np.float32)
        return cls(features, thresholds, missing_left, leaves, offsets)

    def predict(self, rows: NDArray[np.float32]) -> Values:
        """Return the sum of trees of each lead for its row of ``(leads, features)``, shape ``(leads,)``."""
        leads, trees, inner = self.features.shape
        lead = np.arange(leads)[:, None]
        tree = np.arange(trees)[None, :]
        node = np.zeros((leads, trees), dtype=np.int64)
        for _ in range(int(np.log2(inner + 1))):
            values = rows[lead, self.features[lead, tree, node]]
            unknown = np.isnan(values)
            left = np.where(unknown, self.missing_left[lead, tree, node], values < self.thresholds[lead, tree, node])
            node = 2 * node + 2 - left
        return np.asarray(
            self.offsets + self.leaves[lead, tree, node - inner].sum(axis=1, dtype=np.float64), dtype=np.float64
        )

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state: sizes and packed numbers."""
        arrays = (self.features, self.thresholds, self.missing_left, self.leaves, self.offsets)
        packed = b"".join(
            np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<")).tobytes() for values in arrays
        )
        leads, trees, inner = self.features.shape
        text = base64.b64encode(zlib.compress(packed, 6)).decode()
        return {"leads": leads, "trees": trees, "inner": inner, "packed": text}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`. Raises ``ValueError`` when sizes and numbers do not agree."""
        leads, trees, inner = (int(state[name]) for name in ("leads", "trees", "inner"))
        shapes: list[tuple[str, tuple[int, ...]]] = [
            ("<u1", (leads, trees, inner)),
            ("<f4", (leads, trees, inner)),
            ("|b1", (leads, trees, inner)),
            ("<f4", (leads, trees, inner + 1)),
            ("<f4", (leads,)),
        ]
        sizes = [int(np.prod(shape)) * np.dtype(kind).itemsize for kind, shape in shapes]
        if min(leads, trees, inner) < 1 or inner & (inner + 1) or sum(sizes) > LARGEST_BYTES:
            raise ValueError(f"{leads} x {trees} trees of {inner} nodes cannot be")
        try:
            packed = zlib.decompressobj().decompress(base64.b64decode(state["packed"], validate=True), sum(sizes) + 1)
        except zlib.error as error:
            raise ValueError(f"the numbers of the trees cannot be unpacked: {error}") from error
        if len(packed) != sum(sizes):
            raise ValueError(f"the trees have {len(packed)} bytes, not {sum(sizes)}")
        ends = np.cumsum(sizes)
        arrays = [
            np.frombuffer(packed[end - size : end], dtype=kind).reshape(shape)
            for end, size, (kind, shape) in zip(ends, sizes, shapes, strict=True)
        ]
        return cls(*arrays)


def _tables(model: Mapping[str, Any], depth: int) -> tuple[Any, ...]:
    """Return features, thresholds, missing directions, leaves and the offset of one booster."""
    learner = model["learner"]
    trees = learner["gradient_booster"]["model"]["trees"]
    inner = 2**depth - 1
    features = np.zeros((len(trees), inner), dtype=np.uint8)
    thresholds = np.full((len(trees), inner), np.inf, dtype=np.float32)
    missing_left = np.ones((len(trees), inner), dtype=bool)
    leaves = np.zeros((len(trees), inner + 1), dtype=np.float32)
    for index, tree in enumerate(trees):
        _unfold(tree, 0, 0, index, (features, thresholds, missing_left, leaves))
    base = learner["learner_model_param"]["base_score"]
    offset = np.float32(json.loads(base)[0] if base.startswith("[") else float(base))
    return features, thresholds, missing_left, leaves, offset


def _unfold(tree: Mapping[str, Any], node: int, place: int, index: int, tables: tuple[Any, ...]) -> None:
    """Write a node and what hangs on it at its place in the heap; a leaf higher up is repeated below itself."""
    features, thresholds, missing_left, leaves = tables
    inner = features.shape[1]
    left, right = tree["left_children"][node], tree["right_children"][node]
    if left < 0:
        first = last = place
        while first < inner:
            first, last = 2 * first + 1, 2 * last + 2
        leaves[index, first - inner : last - inner + 1] = tree["split_conditions"][node]  # of a leaf: its value
        return
    features[index, place] = tree["split_indices"][node]
    thresholds[index, place] = tree["split_conditions"][node]
    missing_left[index, place] = bool(tree["default_left"][node])
    _unfold(tree, left, 2 * place + 1, index, tables)
    _unfold(tree, right, 2 * place + 2, index, tables)
