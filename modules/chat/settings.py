"""What a person can set for Chat, under `config:` of modules.yaml."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ChatSettings(BaseModel):
    """All of them."""

    model_config = ConfigDict(extra="forbid")

    curator: bool = Field(
        default=True,
        description="whether a curator keeps titles and summaries; off, a hook of yours can",
    )
    brain_context: bool = Field(
        default=True, description="whether what Brain knows of a message goes into the prompt"
    )
    write_back: bool = Field(
        default=True, description="whether facts of conversations are kept in Brain"
    )
