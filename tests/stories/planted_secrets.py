"""Planting: canary secrets in every place where secrets live, and a search for them in all that
comes out.
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_CANARY = re.compile(r"cnry\d{3}[0-9a-f]{12}")
_FAR = 4_000_000_000_000  # a login that has not ended, in ms
ENVIRONMENT = [
    "ANTHROPIC_AUTH_TOKEN",
    "OPENAI_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "GITHUB_TOKEN",
    "NPM_TOKEN",
    "SLACK_BOT_TOKEN",
    "TELEGRAM_BOT_TOKEN",
    "HF_TOKEN",
    "PGPASSWORD",
    "STRIPE_SECRET",
    "DATABASE_URL",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "SESSION_COOKIE",
    "MY_NOTE",
]
USER_FILES = [
    ".claude.json",
    ".claude/history.jsonl",
    ".claude/settings.json",
    ".claude/projects/-vault/0000.jsonl",
    ".ssh/id_ed25519",
    ".ssh/config",
    ".aws/credentials",
    ".config/gcloud/application_default_credentials.json",
    ".config/gh/hosts.yml",
    ".azure/token.json",
    ".kube/config",
    ".docker/config.json",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".git-credentials",
    ".bash_history",
    ".zsh_history",
    ".env",
    ".gnupg/secring.gpg",
    "Documents/passwords.txt",
]
VAULT_FILES = [
    ".claude/settings.json",
    ".env",
    ".git/config",
    ".git/logs/HEAD",
    ".obsidian/plugins/sync/data.json",
    ".parachute/activity/2026-11-01.jsonl",
    ".parachute/notes.txt",
    ".mcp.json",
    "Work/.env",
    "Work/.git/config",
    "Private/diary.md",
    "Private/keys.txt",
    "Modules/other/secrets.json",
]
HOME_FILES = [
    "hooks/secret.txt",
    "hooks/on-file-modified.sh",
    "state/other/state.db",
    "run/token",
    "sandbox/old/transcript.jsonl",
    "suggestions.key.old",
]


@dataclass
class PlantedVault:
    """What was planted: the place by canary.

    `may_show` are canaries that live in the place that is searched.
    """

    user: Path
    home: Path
    vault: Path
    places: dict[str, str] = field(default_factory=dict)
    literals: dict[str, str] = field(default_factory=dict)

    def new(self, place: str) -> str:
        """A canary for that place."""
        canary = f"cnry{len(self.places):03}{secrets.token_hex(6)}"
        self.places[canary] = place
        return canary

    def found(self, text: str) -> set[str]:
        """The places whose canaries the text shows, in plain or in the spellings that a program
        might make of them.
        """
        hidden = {self.places.get(one, "?") for one in _CANARY.findall(text)}
        hidden |= {
            self.places.get(one[::-1], "?") for one in re.findall(r"[0-9a-f]{12}\d{3}yrnc", text)
        }
        return hidden | {place for place, secret in self.literals.items() if secret in text}

    def environment(self) -> dict[str, str]:
        """The daemon's environment, full of secrets."""
        env = {name: self.new(f"${name}") for name in ENVIRONMENT}
        env |= {
            name: f"http://someone:{env[name]}@proxy.invalid:3128"
            for name in ("HTTPS_PROXY", "ALL_PROXY")
        }
        env["DATABASE_URL"] = f"postgres://someone:{env['DATABASE_URL']}@db.invalid/x"
        env["ANTHROPIC_API_KEY"] = f"sk-ant-api03-{self.new('$ANTHROPIC_API_KEY')}"
        env["CLAUDE_CODE_OAUTH_TOKEN"] = self.new("$CLAUDE_CODE_OAUTH_TOKEN")
        return env

    def plant_files(self) -> None:
        """Files of the user, of the vault and of this program's home."""
        for root, names in (
            (self.user, USER_FILES),
            (self.vault, VAULT_FILES),
            (self.home, HOME_FILES),
        ):
            for name in names:
                self.put(root / name, f"token = {self.new(f'{root.name}/{name}')}\n")
        (self.home / "hooks/on-file-modified.sh").write_text(
            f"#!/bin/sh\n# Tells nobody.\nTOKEN={self.new('a hook')}\nexit 0\n"
        )
        (self.home / "hooks/on-file-modified.sh").chmod(0o700)
        for root in (self.user, self.vault):
            oauth = {
                kind: self.new(f"{kind} of {root.name}/.claude")
                for kind in ("accessToken", "refreshToken")
            }
            self.put(
                root / ".claude/.credentials.json",
                json.dumps(
                    {"claudeAiOauth": {**oauth, "expiresAt": _FAR, "scopes": ["user:inference"]}}
                ),
            )
        hook = (
            f"API_TOKEN={self.new('a variable in hooks.yaml')} true -H 'Authorization: Bearer "
            f"{self.new('a header in hooks.yaml')}'"
        )
        self.put(
            self.home / "hooks.yaml",
            f"# {self.new('a remark in hooks.yaml')}\nhooks:\n  session.end:\n    - {{type: "
            f'command, command: "{hook}"}}\n',
        )

    @staticmethod
    def put(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)


def running(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What anyone on this machine sees of what runs: command lines, and containers with their
    settings.
    """
    yield (
        "ps",
        subprocess.run(
            ["ps", "-eo", "args", "-ww"], capture_output=True, text=True, check=True
        ).stdout,
    )
    ids = subprocess.run(
        ["docker", "ps", "-aq"], env=dict(env), capture_output=True, text=True, check=True
    ).stdout.split()
    if ids:
        for command in ("inspect", "logs", "top", "diff"):
            for entry_id in ids if command != "inspect" else [" ".join(ids)]:
                done = subprocess.run(
                    ["docker", command, *entry_id.split()],
                    env=dict(env),
                    capture_output=True,
                    text=True,
                    check=False,
                )
                yield f"docker {command}", done.stdout + done.stderr
