"""A person's additions to the prompts of a module's agents, in the home, for they direct agents."""

from __future__ import annotations

from pathlib import Path

from parachuted.access.agent_config import AgentConfig
from parachuted.errors import NotFoundError, StorageFailedError
from parachuted.home_files.private import replace_private
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.vault import VaultPath, printable

FILE = "prompt.md"
LONGEST_PROMPT, _MOST_BYTES = 100_000, 400_000


class ModulePrompts:
    def __init__(self, home: Path) -> None:
        self._folder = home / "modules"

    def get(self, name: str) -> str | None:
        try:
            with (self._folder / name / FILE).open("rb") as file:
                return file.read(_MOST_BYTES).decode("utf-8", "replace")
        except FileNotFoundError:
            return None

    def put(self, name: str, text: str | None) -> None:
        """None: say nothing any more. Raises StorageFailedError."""
        file = self._folder / name / FILE
        try:
            if text is None:
                file.unlink(missing_ok=True)
                return
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_private(file, text.encode())
        except OSError as error:
            raise StorageFailedError(
                f"the prompt of {name} could not be kept ({error.strerror})", errno=error.errno
            ) from error


def own_prompt(approved: ApprovedModule, agent: AgentConfig) -> str:
    """The instructions of that agent, without a person's words. Raises NotFoundError."""
    if agent.prompt_file is None:
        return agent.system_prompt
    path = VaultPath.parse(agent.prompt_file)  # of a copy in which there are no links
    try:
        return (approved.copy / path).read_text("utf-8", errors="replace")[:LONGEST_PROMPT]
    except OSError as error:
        raise NotFoundError(
            f"the module has no file {printable(path)}, which should be the system prompt"
        ) from error


def default_prompt(approved: ApprovedModule) -> str:
    """That of its first agent."""
    agents = approved.manifest.agents.values()
    return next((own_prompt(approved, agent) for agent in agents), "")
