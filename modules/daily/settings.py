"""What a person can set for Daily, under `config:` of modules.yaml."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .layouts import Layout


class Transcription(BaseModel):
    """How recordings become words: by a command, or by faster-whisper with a local model."""

    model_config = ConfigDict(extra="forbid")

    command: list[str] = Field(
        default=[], description="words of a command that a recording's path is added to"
    )
    model: str = Field(default="", description="the folder of a model of faster-whisper's")
    timeout_s: int = Field(default=3600, ge=1, description="at most, for one recording")

    @model_validator(mode="after")
    def _one_engine(self) -> Transcription:
        if bool(self.command) == bool(self.model):
            raise ValueError("it needs either `command` or `model`")
        return self


class DailySettings(BaseModel):
    """All of them."""

    model_config = ConfigDict(extra="forbid")

    layout: Layout = Field(default="journals", description="where new entries go")
    transcription: Transcription | None = Field(
        default=None, description="`command` or `model`; without it recordings wait"
    )
