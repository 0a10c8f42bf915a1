"""Manifest: every field is read, every mistake is reported with its field, and nothing in it breaks
the reader.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as some

from parachuted.modules import AgentConfig, SandboxConfig
from parachuted.modules.registry.manifest import (
    Manifest,
    ManifestError,
    ManifestHook,
    ManifestPermissions,
    McpTool,
    RoutePrefix,
    read_manifest,
)

COMPLETE = """\
# Required fields
name: brain
version: 1.0.0
description: Knowledge layer for Parachute

# Entry point - must export a class inheriting from Module
module: module.py

provides: [BrainInterface]
optional_requires:
  - JournalInterface
  - ConversationInterface
dependencies: [pyyaml>=6.0, aiofiles>=23.0]

agents:
  indexer:
    description: "Indexes new content into the knowledge graph"
    sandbox:
      workspace_access: rw      # none | ro | rw
      allowed_paths: [Brain/]
      network: none             # none | bridge
      memory: 512m
      cpus: 1.0
      pids_limit: 256
    system_prompt: prompts/indexer.md
    capabilities: [Read, Write, Edit]

hooks: [{event: daily.entry.created, handler: "hooks:on_entry_created", async: true}]
mcp_tools:
  - name: brain_search
    description: Search entities by keyword
    handler: tools:brain_search
routes: {prefix: /api/brain}
permissions:
  read: [Brain/, parachute/memory.md, Daily/.agents/**]
  write: ["Brain/**"]
  bash: [git]
  mcp: [daily-journal]
ui:
  icon: brain
  pages: [{title: Entities, path: /entities}]
"""

UNKNOWN = "Unknown field"
SMALL = "name: a\nversion: 1.0.0\nmodule: module.py\n"


def problems(text: str | bytes, **more: object) -> list[str]:
    with pytest.raises(ManifestError) as raised:
        read_manifest(text, **more)
    return list(raised.value.problems)


def test_every_field_is_read():
    indexer = AgentConfig(
        description="Indexes new content into the knowledge graph",
        sandbox=SandboxConfig(workspace_access="rw", allowed_paths=("Brain/**",)),
        system_prompt="prompts/indexer.md",
        capabilities=("read", "write"),
    )
    search = {"description": "Search entities by keyword", "handler": "tools:brain_search"}
    heard = {"event": "daily.entry.created", "handler": "hooks:on_entry_created"}
    assert read_manifest(COMPLETE) == Manifest(
        name="brain",
        version="1.0.0",
        description="Knowledge layer for Parachute",
        module="module.py",
        provides=("BrainInterface",),
        optional_requires=("JournalInterface", "ConversationInterface"),
        dependencies=("pyyaml>=6.0", "aiofiles>=23.0"),
        agents={"indexer": indexer},
        hooks=(ManifestHook(**heard, is_async=True),),
        mcp_tools=(McpTool(name="brain_search", **search),),
        routes=RoutePrefix(prefix="/api/brain"),
        permissions=ManifestPermissions(
            read=("Brain/**", "parachute/memory.md", "Daily/.agents/**"),
            write=("Brain/**",),
            bash=("git",),
            mcp=("daily-journal",),
        ),
        ui={"icon": "brain", "pages": [{"title": "Entities", "path": "/entities"}]},
    )


def test_three_fields_are_enough_and_an_empty_one_is_none():
    manifest = read_manifest(SMALL)

    assert (manifest.prefix, manifest.permissions) == ("/api/a", ManifestPermissions())
    assert manifest.agents == {}
    left_empty = f"{SMALL}description:\nprovides: ~\nagents:\n  helper:\n"
    assert read_manifest(left_empty) == read_manifest(f"{SMALL}agents: {{helper: {{}}}}\n")
    windows = b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode()
    assert read_manifest(windows) == manifest


KINDS = "read, write (or Read, Glob, Grep, Write, Edit), Bash, WebFetch"
NO_HANDLER = "is not a handler such as hooks:on_entry_created, a file and its function"
NO_NAME = "is not a name such as my-module: small letters, digits and dashes, at most 64"
NO_WRITE = "is a program's, a module's code, or a person's to decide; no module writes it"
ACCESS = "agents.indexer.sandbox.workspace"
NO_NUMBER = "Input should be a valid number, unable to parse string as a number"


def test_all_mistakes_are_reported_at_once_each_with_its_field():
    text = """\
name: Brain
version: 1.0
modul: module.py
agents:
  indexer:
    sandbox: {workspace_acess: rw, workspace_access: all, cpus: x}
    capabilities: [Shell]
hooks: [{event: created, handler: h f, asynch: true}]
permissions: {read: [.claude/**, ../x], write: [Modules/**]}
provides: X
"""

    assert sorted(problems(text)) == [
        f"agents.indexer.capabilities: 'Shell' is not one of {KINDS}",
        f"agents.indexer.sandbox.cpus: {NO_NUMBER}",
        f"{ACCESS}_access: Input should be 'none', 'ro' or 'rw'",
        f"{ACCESS}_acess: {UNKNOWN}",
        f"hooks.0.asynch: {UNKNOWN}",
        "hooks.0.event: 'created' is not a name of an event such as daily.entry.created",
        f"hooks.0.handler: 'h f' {NO_HANDLER}",
        f"modul: {UNKNOWN}",
        "module: Field required",
        f"name: 'Brain' {NO_NAME}",
        "permissions.read.0: '.claude/**' is a program's, or a module's code; no module reads it",
        "permissions.read.1: '../x' is not a pattern of paths in a vault, such as 'Projects/**'",
        f"permissions.write.0: 'Modules/**' {NO_WRITE}",
        "provides: Input should be a list",
        "version: '1.0' is not a version of three numbers such as 1.0.0",
    ]


NOT_A_NAME = "is not a name such as my-module"
PUBLISHES = "publishes:\n  "


@pytest.mark.parametrize(
    ("more", "reported"),
    [
        ("provides: [A B]\n", "provides.0: 'A B' is not a name of an interface"),
        ("description: [a]\n", "description: Input should be a valid string"),
        ("agents: [a]\n", "agents: Input should be a valid dictionary"),
        ("agents: {a: b}\n", "agents.a: Input should be a dictionary or"),
        ("agents: {A b: {}}\n", f"agents.A b: 'A b' {NOT_A_NAME}"),
        ("permissions: {bash: git}\n", "permissions.bash: should be true, false or a list"),
        ("permissions: {mcp: [a b]}\n", "permissions.mcp.0: 'a b' is not a name of a tool"),
        ("permissions: {read: [/etc/x]}\n", "permissions.read.0: '/etc/x' is outside the vault"),
        ("permissions: {write: [~/x]}\n", "permissions.write.0: '~/x' is outside the vault"),
        ("permissions: {delete: [x]}\n", f"permissions.delete: {UNKNOWN}"),
        ("routes: {prefix: api/x}\n", "routes.prefix: 'api/x' is not a prefix"),
        ("routes: {prefix: /api/x/y}\n", "routes.prefix: '/api/x/y' is not a prefix"),
        ("routes: {prefix: /api/notes}\n", "routes.prefix: 'notes' is a name of the daemon's own"),
        ("hooks: [{event: a.b, handler: '../x:y'}]\n", "hooks.0.handler: '../x:y' is not a"),
        ("schedules: [15m]\n", "schedules.0: should be such as {every: 15m}"),
        ("schedules: [{every: soon}]\n", "schedules.0: 'soon' is not a duration"),
        (f"{PUBLISHES}b.said: {{}}\n", "publishes.b.said: its name should begin with `a.`"),
        (f"{PUBLISHES}a.said: {{w: string}}\n", "publishes.a.said.w: Input should be 'path'"),
        (f"{PUBLISHES}a.said: {{a w: free}}\n", "publishes.a.said.a w: 'a w' is not a name of a"),
        (f"{PUBLISHES}a.said: [w]\n", "publishes.a.said: Input should be a valid dictionary"),
        (f"{PUBLISHES}a: {{}}\n", "publishes.a: 'a' is not a name of an event"),
        ("? [a]\n: b\n", "line 4: a key should be a word"),
    ],
)
def test_each_mistake_is_reported(more, reported):
    assert any(says.startswith(reported) for says in problems(SMALL + more, reserved=["notes"]))


def test_what_is_the_daemons_own_or_in_the_catalogue_is_not_declared_again():
    daily, file = (SMALL.replace("name: a", f"name: {name}") for name in ("daily", "file"))
    said = problems(f"{daily}publishes: {{daily.entry.created: {{entry_id: id}}}}\n")
    assert "is declared already" in said[0]
    assert read_manifest(file).name == "file"
    assert problems(f"{file}publishes: {{file.read: {{}}}}\n") == [
        "name: 'file' begins the daemon's own events; choose another"
    ]
    assert problems(SMALL, reserved=["a"]) == [
        f"{field}: 'a' is a name of the daemon's own routes; choose another"
        for field in ("name", "routes.prefix")
    ]


NO_REQUIREMENTS = (
    *("git+https://evil.org/x.git", "x @ https://evil.org/x.whl", "-r other.txt", "./local"),
    *("--index-url=https://evil.org", "/abs", "x>=1 @y", "x>=1 --hash=y", "x ; a --pre"),
)
NO_FILES = ("../module.py", "a/module.py", "/module.py", "module", "module.pyc", "my-module.py")
NO_FOLDERS = (
    *("~", "~/", "/", "Projects", "~/../x", "/data//x", "~/.ssh", "/a/.b/c", "~/*", "~you/x", ""),
)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("name: a", "name: ''", "not a name|Field required"),
        *(
            ("name: a", f"name: '{name}'", "not a name")
            for name in ("A", "a_b", "1a", "-a", "a" * 65, "ä", "../x", "a.b")
        ),
        *(
            ("1.0.0", version, "not a version of three numbers")
            for version in ("1", "1.0", "v1.0.0", "1.0.0.0", "01.0.0", "latest")
        ),
        *(("module.py", file, "not a Python file") for file in NO_FILES),
        *(
            ("\n", f"\ndependencies: ['{one}']\n", "not a requirement") for one in NO_REQUIREMENTS
        ),  # a name and a version, and never an address or an option
        *(
            ("\n", f"\npermissions: {{folders: ['{one}']}}\n", "is not a folder such as")
            for one in NO_FOLDERS
        ),  # all of the disk, what is hidden, and patterns
    ],
)
def test_what_cannot_be_a_value_of_its_field_is_refused(old, new, says):
    assert any(re.search(says, problem) for problem in problems(SMALL.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("version", ["0.0.1", "10.20.30", "1.0.0-beta.1", "1.0.0+local"]),
        (
            "dependencies",
            ["pyyaml", "a[b,c]~=1.4", "x>=1,<2", "x!=1.5 ; python_version < '4'"],
        ),
    ],
)
def test_versions_and_requirements_are_taken_as_they_stand(field, values):
    for value in values:
        text = SMALL.replace("version: 1.0.0\n", "") if field == "version" else SMALL
        sent = f'["{value}"]' if field == "dependencies" else value
        found = getattr(read_manifest(f"{text}{field}: {sent}\n"), field)
        assert found == (value if field == "version" else (value,))


def test_what_it_names_must_be_in_the_folder():
    text = COMPLETE.replace("module: module.py", "module: brain.py")

    assert problems(text, files=["manifest.yaml", "tools.py"]) == [
        "there is no brain.py in the folder",
        "there is no hooks.py in the folder",
        "there is no prompts/indexer.md in the folder",
    ]
    assert read_manifest(text, files=["brain.py", "hooks.py", "tools.py", "prompts/indexer.md"])


def test_what_it_lists_by_name_alone_or_has_no_say_in():
    manifest = read_manifest(
        f"{SMALL}trust_level: direct\nrequires: [BrainInterface]\n"
        "mcp_tools: [find]\nhooks: [file.created]\n"
        "publishes:\n  a.woke:\n  a.page.turned: {path: path, words: text, count: number}\n"
    )

    assert manifest.optional_requires == ("BrainInterface",)
    assert manifest.mcp_tools == (McpTool(name="find"),)
    assert manifest.hooks == (ManifestHook(event="file.created"),)
    assert manifest.publishes == {
        "a.page.turned": {"path": "path", "words": "text", "count": "number"},
        "a.woke": {},
    }


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", "it should begin with a line such as"),
        ("# only a comment\n", "it should begin with a line such as"),
        ("- a\n- b\n", "it should begin with a line such as"),
        ("name: a\nversion: [1\n", "line 3: it is not YAML: did not find expected ',' or ']'"),
        ("name: a\n\tversion: 1\n", "line 2: it is not YAML: found"),
        ("a: &x [1]\nb: *x\n", "line 2: it uses an alias"),
        ("[" * 50_000, "line 1: it is nested more than 64 levels deep"),
        ("a: 1\n---\nb: 2\n", "line 2: it holds more than one YAML document"),
        ("x" * 70_000, "it is larger than 64 KB"),
        (b"\xff\xfe", "'utf-8' codec can't decode"),
    ],
)
def test_what_is_not_yaml_or_too_much_of_it_is_refused(text, reported):
    assert problems(text)[0].startswith(reported)


def test_a_flood_of_mistakes_is_not_reported_in_full():
    assert len(problems("\n".join(f"field{number}: x" for number in range(1000)))) == 50


FIELDS = [
    *("name", "version", "module", "provides", "agents", "sandbox"),
    *("bash", "hooks", "event", "handler", "mcp_tools", "routes", "read"),
]


@given(
    some.recursive(
        some.text(max_size=12) | some.sampled_from(["true", "", "1.0.0", "a:b", "~/x", "Brain/"]),
        lambda inner: (
            some.lists(inner, max_size=3)
            | some.dictionaries(
                some.sampled_from(FIELDS),
                inner,
                max_size=5,
            )
        ),
        max_leaves=20,
    )
)
def test_whatever_it_holds_it_is_read_or_refused_in_words(value):
    text = repr(value).replace(
        "\\x", "x"
    )  # Python's own spelling of lists and dicts is nearly YAML's
    try:
        read_manifest(text, reserved=["a"], files=[])
    except ManifestError:
        return


@pytest.mark.parametrize("folder", ["~/Projects", "/data/work/", "~/My Notes/garden"])
def test_a_folder_outside_the_vault_is_named_from_its_root_on(folder):
    manifest = read_manifest(f"{SMALL}permissions:\n  folders: ['{folder}']\n")

    assert manifest.permissions.folders == (folder.rstrip("/"),)
