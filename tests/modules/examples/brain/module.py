"""Brain: entities in miniature.

Each is a note in Brain/entities, named as people write it: `[[Kevin]]`.
"""

from __future__ import annotations

from parachuted.modules import Module, interface, route

from .store import FOLDER, Entity, entity_at  # noqa: TID252  a module's own files are its neighbours

WRITTEN, NAMED = 1.0, 0.6


class BrainModule(Module):
    """It is its own BrainInterface: suggest, link, search."""

    @route("GET", "/entities")
    async def list_entities(self):
        """All entities."""
        return {"entities": await self.entities()}

    async def entities(self) -> list[Entity]:
        """What there is a note of."""
        return [entity_at(path) for path in await self.vault.list(f"{FOLDER}/*.md")]

    @interface("BrainInterface")
    async def suggest(self, text: str):
        """Who is mentioned, and how surely: `[[Kevin]]` is, Kevin may be."""
        found = []
        for entity in await self.entities():
            confidence = (
                WRITTEN if f"[[{entity.name}]]" in text else NAMED if entity.name in text else 0.0
            )
            if confidence:
                found.append(
                    {"para_id": entity.para_id, "name": entity.name, "confidence": confidence}
                )
        return found

    @interface("BrainInterface")
    async def link(self, source_id: str, para_id: str):
        """Remember that it is mentioned there."""
        sources = await self.state.get(para_id, [])
        if source_id not in sources:
            await self.state.put(para_id, [*sources, source_id])
            self.publish(
                "brain.mention.detected", source_id=source_id, para_id=para_id, confidence=WRITTEN
            )

    @interface("BrainInterface")
    async def search(self, query: str):
        """The entities whose name or note holds the words."""
        notes = [(entity, await self.vault.read(entity.path)) for entity in await self.entities()]
        return [
            {"para_id": entity.para_id, "name": entity.name}
            for entity, text in notes
            if query.lower() in f"{entity.name}\n{text}".lower()
        ]
