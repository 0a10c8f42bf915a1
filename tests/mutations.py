"""Mutations: places that matter, broken one at a time in a copy of the tree; the tests that must
notice are run there.

`make mutations`, or `python -m tests.mutations [WORD ...]` for those whose name has a word. Prints
a table; exit code 1 when one was not caught, or when the tests fail with nothing broken.
tests/test_mutations.py sees that each place is still there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDED = ("parachuted", "tests", "hooks", "modules", "vault-template", "docs", "pyproject.toml")
CODE_FAILED = 1  # of pytest: it ran, and a test failed
CAUGHT, MISSED, BROKEN = "caught", "NOT CAUGHT", "NO TEST RAN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """In `file`, the one place that reads `old` becomes `new`; the tests of `tests` notice."""

    name: str
    file: str
    old: str
    new: str
    tests: str

    def broken(self, text: str) -> str:
        """The text of the file with it; AssertionError where the place is not there once."""
        assert text.count(self.old) == 1, f"{self.name}: {self.file} has it {text.count(self.old)}x"
        return text.replace(self.old, self.new)


MUTATIONS = (
    Mutation(
        name="modules: a file event carries the module's whole rights",
        file="parachuted/modules/hosting/event_publisher.py",
        old='if self._reach is None or "by" not in data:',
        new="if True:",
        tests="tests/stories/test_file_authors.py",
    ),
    Mutation(
        name="modules: a limited caller sets schedules",
        file="parachuted/modules/hosting/schedules.py",
        old="if caller.grant.is_limited:",
        new="if False:",
        tests="tests/modules/hosting/test_schedules.py",
    ),
    Mutation(
        name="daily: an agent runs whose file no person wrote",
        file="modules/daily/agents.py",
        old="        if not await self.is_approved(agent):\n            return AgentOutcome(",
        new="        if False:\n            return AgentOutcome(",
        tests="tests/stories/test_file_authors.py",
    ),
    Mutation(
        name="write: what came out of the exchange is not compared",
        file="parachuted/vault/swap.py",
        old="        return\n    _expect(folder, temporary, original, old)\n",
        new="        return\n",
        tests="tests/vault/test_swap.py",
    ),
    Mutation(
        name="write: the base is not compared before the exchange",
        file="parachuted/vault/swap.py",
        old="or digest_of_open(original) != old:",
        new="or False:",
        tests="tests/vault/test_swap.py",
    ),
    Mutation(
        name="delete: the base is not compared",
        file="parachuted/vault/store.py",
        old="if expected not in {None, before}:",
        new="if False:",
        tests="tests/vault/test_store.py tests/vault/test_conflicts.py",
    ),
    Mutation(
        name="edit: a merge with a conflict is written",
        file="parachuted/vault/edit_request.py",
        old="if not merged.clean:",
        new="if False:",
        tests="tests/vault/test_edit_request_rebase.py",
    ),
    Mutation(
        name="paths: `..` is a name",
        file="parachuted/vault/paths.py",
        old='name in {"", ".", ".."} for name',
        new='name in {"", "."} for name',
        tests="tests/vault/test_paths.py",
    ),
    Mutation(
        name="access: hidden files exist",
        file="parachuted/access/filter.py",
        old="return not is_hidden(path) and self.grant.sees(path)",
        new="return self.grant.sees(path)",
        tests="tests/access/test_filter.py",
    ),
    Mutation(
        name="access: a link leads anywhere",
        file="parachuted/access/filter.py",
        old="if real == path or self.sees(real):",
        new="if True:",
        tests="tests/access/test_filter.py",
    ),
    Mutation(
        name="access: an agent writes control files",
        file="parachuted/access/grant.py",
        old="not is_control(path)\n            and self.writes.sees(path)",
        new="self.writes.sees(path)",
        tests="tests/access/test_grant.py",
    ),
    Mutation(
        name="access: a run that read strangers' text writes everywhere",
        file="parachuted/access/grant.py",
        old="and (not tainted or self.tainted_writes.sees(path))",
        new="and True",
        tests="tests/access/test_grant.py",
    ),
    Mutation(
        name="keys: none expires",
        file="parachuted/keys/api_key.py",
        old="return self.expires is not None and self.expires <= now",
        new="return False",
        tests="tests/keys",
    ),
    Mutation(
        name="API: a key with paths reaches beyond files",
        file="parachuted/keys/scopes.py",
        old="return not for_path_keys and (self.has_paths or grant != EVERYWHERE)",
        new="return False",
        tests="tests/api/test_app_scopes.py",
    ),
    Mutation(
        name="API: every Host header is answered",
        file="parachuted/api/http/host_guard.py",
        old="if len(hosts) != 1 or not self._is_own(hosts[0], request):",
        new="if len(hosts) != 1:",
        tests="tests/api/http/test_host_guard.py",
    ),
    Mutation(
        name="API: every web page is answered",
        file="parachuted/api/http/host_guard.py",
        old="if not all(self.lists(origin)",
        new="if False and not all(self.lists(origin)",
        tests="tests/api/http/test_host_guard.py",
    ),
    Mutation(
        name="causes: one wakes a watcher again",
        file="parachuted/tasks/queue.py",
        old="cause for cause in causes if watcher not in self._woken.get(cause, ())",
        new="cause for cause in causes",
        tests="tests/tasks/test_causes.py",
    ),
    Mutation(
        name="budget: one run more in an hour",
        file="parachuted/tasks/budget.py",
        old="+ more >= limit",
        new="+ more > limit",
        tests="tests/tasks/test_budget.py",
    ),
    Mutation(
        name="budget: one run more for a cause",
        file="parachuted/tasks/budget.py",
        old="+ more.count(cause) < limit",
        new="+ more.count(cause) <= limit",
        tests="tests/tasks/test_budget.py",
    ),
    Mutation(
        name="money: the budget with the most left counts",
        file="parachuted/agents/gateway/usage.py",
        old="min(budgets, key=lambda budget: budget.left)",
        new="max(budgets, key=lambda budget: budget.left)",
        tests="tests/agents/gateway/test_usage.py",
    ),
    Mutation(
        name="audit: a line need not follow the one before it",
        file="parachuted/audit/reader.py",
        old="run.prev != at.hash and not is_oldest",
        new="False",
        tests="tests/audit/test_verify.py",
    ),
    Mutation(
        name="modules: what runs need not be what was approved",
        file="parachuted/modules/registry/approvals.py",
        old="if approval_digest(copy.digest, manifest, lock) != record.hash:",
        new="if False:",
        tests="tests/modules/registry/test_tampering.py",
    ),
    Mutation(
        name="undo: by a key that may not write the vault",
        file="parachuted/api/routes/runs.py",
        old="if call.writing != EVERYWHERE:",
        new="if False:",
        tests="tests/stories/test_records.py",
    ),
    Mutation(
        name="events: a key with paths hears of other than files",
        file="parachuted/access/events.py",
        old="scopes=() if identity.has_paths else identity.scopes",
        new="scopes=identity.scopes",
        tests="tests/access/test_events.py",
    ),
    Mutation(
        name="MCP: a key with paths is offered every tool",
        file="parachuted/mcp/tools.py",
        old="grant, for_path_keys=known.for_path_keys",
        new="grant, for_path_keys=True",
        tests="tests/mcp/test_tools.py",
    ),
    Mutation(
        name="undo: a run twice",
        file="parachuted/history/undo.py",
        old='if document["undone"]:',
        new="if False:",
        tests="tests/history/test_undo.py",
    ),
    Mutation(
        name="history: a person's lines as a run's",
        file="parachuted/vault/chains.py",
        old="if known and known[-1].after == before:",
        new="if known:",
        tests="tests/history/test_run_account.py",
    ),
)


def outcome_of(tests: str, folder: Path) -> str:
    """Run them there, to the first that fails."""
    options = ["-q", "-x", "--no-header", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", *options, *tests.split()],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode in {0, CODE_FAILED}:
        return MISSED if done.returncode == 0 else CAUGHT
    return f"{BROKEN}: {done.stdout[-400:]}{done.stderr[-400:]}"


def copied(folder: Path) -> None:
    """The tree, without what is made from it."""
    for name in NEEDED:
        ignored = shutil.ignore_patterns("__pycache__", ".venv")
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)


def main() -> int:
    """Try those that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("words", nargs="*", help="try those whose names hold one of these words")
    words = parser.parse_args().words
    chosen = [
        mutation
        for mutation in MUTATIONS
        if not words or any(word in mutation.name for word in words)
    ]
    if not chosen:
        parser.error(f"no name holds {' or '.join(words)}")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as name:
        folder = Path(name)
        copied(folder)
        whole = outcome_of(
            " ".join(dict.fromkeys(" ".join(m.tests for m in chosen).split())), folder
        )
        print(f"{'nothing is broken':60} {'passes' if whole == MISSED else 'FAILS ' + whole}")
        failed += whole != MISSED
        for one in chosen:
            file = folder / one.file
            text = file.read_text("utf-8")
            started = time.monotonic()
            file.write_text(one.broken(text), "utf-8")
            outcome = outcome_of(one.tests, folder)
            file.write_text(text, "utf-8")
            failed += outcome != CAUGHT
            print(f"{one.name:60} {outcome} ({time.monotonic() - started:.0f} s)", flush=True)
    print(f"{len(chosen)} broken, {failed} not as it should be")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
