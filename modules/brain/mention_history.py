"""Mention history: what people accepted and rejected, from which confidence learns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from .words import folded_words, phrase_of

_MANNER_PRIOR = 10  # answers


class MentionHistory:
    """What a person accepted and rejected, by entity and name, and by how names are written."""

    def __init__(self) -> None:
        self._names: Counter[tuple[str, str, bool]] = Counter()
        self._manners: Counter[tuple[str, bool]] = Counter()

    def record(self, entity_id: str, text: str, *, accepted: bool, manner: str = "") -> None:
        """Count one answer about the entity where it is called `text`; `manner`: the mention's."""
        self._names[entity_id, phrase_of(folded_words(text)), accepted] += 1
        if manner:
            self._manners[manner, accepted] += 1

    def is_refused(self, entity_id: str, phrase: str) -> bool:
        """Whether the entity under that name was rejected and never accepted."""
        return (
            self._names[entity_id, phrase, False] > 0 and not self._names[entity_id, phrase, True]
        )

    def name_weight(self, entity_id: str, phrase: str) -> float:
        """What the answers about this entity under this name add."""
        accepted = self._names[entity_id, phrase, True]
        return 1.2 * math.log((accepted + 1) / (self._names[entity_id, phrase, False] + 1))

    def manner_weight(self, manner: str, prior: float) -> float:
        """What the answers about names written so add to a confidence of `prior`."""
        accepted, rejected = self._manners[manner, True], self._manners[manner, False]
        if not accepted + rejected:
            return 0.0
        part = (accepted + _MANNER_PRIOR * prior) / (accepted + rejected + _MANNER_PRIOR)
        return _logit(part) - _logit(prior)

    def of_names(self) -> MentionHistory:
        """The same, without what was learned from all entities together."""
        made = MentionHistory()
        made._names = self._names
        return made

    def to_json(self) -> dict[str, list[list[object]]]:
        """All counts, as JSON has them."""
        return {
            "names": [[*key, count] for key, count in sorted(self._names.items())],
            "manners": [[*key, count] for key, count in sorted(self._manners.items())],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Iterable[list[Any]]]) -> MentionHistory:
        """The history that gave `to_json`."""
        made = cls()
        for entity_id, phrase, accepted, count in data.get("names", ()):
            made._names[str(entity_id), str(phrase), bool(accepted)] = int(count)
        for manner, accepted, count in data.get("manners", ()):
            made._manners[str(manner), bool(accepted)] = int(count)
        return made


def _logit(part: float) -> float:
    return math.log(part / (1 - part))
