"""The daemon's first message to a module host: which module it is, and its isolation rules."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from parachuted.modules.hosting.isolation_rules import IsolationRules
from parachuted.modules.registry.approved import ApprovedModule, TrustLevel
from parachuted.modules.registry.manifest import read_manifest


class StartFrame(BaseModel):
    """All of an `ApprovedModule` but its manifest, which is in the copy."""

    model_config = ConfigDict(extra="forbid")

    name: str
    copy_at: Path
    digest: str
    tree: str
    trust: TrustLevel
    import_paths: tuple[Path, ...]
    overrides: dict[str, object]
    config: dict[str, object]
    config_lines: dict[str, int] = {}
    rules: IsolationRules
    data_folder: Path | None = None
    has_model: bool = False

    @classmethod
    def of(
        cls,
        approved: ApprovedModule,
        rules: IsolationRules,
        *,
        data_folder: Path | None = None,
        has_model: bool = False,
    ) -> dict[str, object]:
        begin = cls(
            name=approved.name,
            copy_at=approved.copy,
            digest=approved.digest,
            tree=approved.tree,
            trust=approved.trust,
            import_paths=approved.import_paths,
            overrides=dict(approved.overrides),
            config=dict(approved.config),
            config_lines=dict(approved.config_lines),
            rules=rules,
            data_folder=data_folder,
            has_model=has_model,
        )
        return begin.model_dump(mode="json")

    def approved(self) -> ApprovedModule:
        """The module to run. It reads the copy."""
        return ApprovedModule(
            name=self.name,
            copy=self.copy_at,
            digest=self.digest,
            tree=self.tree,
            manifest=read_manifest((self.copy_at / "manifest.yaml").read_bytes()),
            trust=self.trust,
            import_paths=self.import_paths,
            overrides=self.overrides,
            config=self.config,
            config_lines=self.config_lines,
        )
