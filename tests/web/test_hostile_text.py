"""What a note or an entry says can run nothing and send nothing, in a real browser that logs every
request.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import expect

from tests.cli.command_line import CommandLine
from tests.web.conftest import saved
from tests.web.opened import Opens

PAYLOADS = Path(__file__).with_name("payloads.txt").read_text("utf-8").splitlines()
FOUND = """() => {
  const all = [...document.querySelectorAll('.markdown *')];
  return {
    count: all.length,
    tags: [...new Set(all.map(one => one.localName))],
    attributes: [...new Set(all.flatMap(one => one.getAttributeNames()))],
    schemes: [...new Set(all.filter(one => one.href).map(one => new URL(one.href).protocol))],
    hashes: all.filter(one => one.hash).map(one => one.hash),
  };
}"""
SAFE_ATTRIBUTES = {
    *("align", "aria-label", "checked", "class", "colspan", "data-file", "data-note", "disabled"),
    *("href", "is", "open", "rel", "rowspan", "start", "tabindex", "target", "title", "type"),
}
NEVER = {"script", "style", "iframe", "object", "embed", "form", "svg", "math", "img", "video"}


def test_published_payloads_run_nothing_and_send_nothing(opens: Opens, daemon: CommandLine):
    assert len(PAYLOADS) >= 100
    notes = {"Hostile/All.md": "\n\n".join(PAYLOADS)}
    notes |= {f"Hostile/Part {number}.md": "\n\n".join(PAYLOADS[number::6]) for number in range(6)}
    notes["Daily/journals/2026-03-01.md"] = "# Hostile\n\n" + "\n\n".join(PAYLOADS[:60])
    for path, text in notes.items():
        saved(daemon, path, f"{text}\n\nthe last words\n")
    saved(daemon, "Hostile/evil.js", "window.hasRun = true\n")
    it = opens(quiet=False)  # the browser tells of handlers that it refused while it parsed
    shown: list[str] = []
    it.page.on("dialog", lambda dialog: (shown.append(dialog.message), dialog.dismiss()))
    screens = [f"#/vault/{path.replace(' ', '%20')}" for path in notes if "Daily" not in path]

    for screen in [*screens, "#/journal/2026-03-01"]:
        it.go(screen)
        expect(it.page.get_by_text("the last words").first).to_be_visible()
        found = it.page.evaluate(FOUND)

        assert found["count"] > 10
        assert NEVER.isdisjoint(found["tags"])
        assert {*found["attributes"]} <= SAFE_ATTRIBUTES
        assert {*found["schemes"]} <= {"http:", "https:", "mailto:"}
        assert [one for one in found["hashes"] if not one.startswith("#/vault/")] == []
    assert shown == []
    assert it.strangers() == []
    assert urlsplit(it.page.url).netloc == urlsplit(it.url).netloc
    for path in notes:  # the other files of this folder use the same vault
        (daemon.vault / path).unlink()


def test_the_policy_stops_what_gets_past_all_that(opens: Opens, daemon: CommandLine):
    saved(daemon, "Hostile/evil.js", "window.hasRun = true\n")
    it = opens(quiet=False)
    expect(it.page.get_by_label("New entry")).to_be_visible()
    tried = it.page.evaluate("""async () => {
      const told = {};
      const attempt = (name, act) => { try { act(); told[name] = 'done'; } catch (error) { told[name] = error.name; } };
      attempt('innerHTML', () => { document.createElement('p').innerHTML = '<b>x</b>'; });
      attempt('script', () => { document.createElement('script').src = '/api/files/Hostile/evil.js'; });
      attempt('policy', () => { trustedTypes.createPolicy('own', { createHTML: text => text }); });
      told.send = await fetch('https://evil.test/x').then(() => 'done', error => error.name);
      const blocked = new Promise(resolve => addEventListener('securitypolicyviolation', event => { if (event.effectiveDirective === 'img-src') resolve(event.blockedURI); }));
      const picture = new Image();
      picture.src = 'https://evil.test/x.png';
      told.picture = await blocked;
      return told;
    }""")  # noqa: E501

    assert tried == {
        "innerHTML": "TypeError",
        "script": "TypeError",
        "policy": "TypeError",
        "send": "TypeError",
        "picture": "https://evil.test/x.png",
    }
    assert it.page.evaluate("window.hasRun") is None


def test_a_path_that_leads_out_of_the_vaults_files_asks_for_nothing(
    opens: Opens, daemon: CommandLine
):
    saved(
        daemon,
        "Hostile/Out.md",
        "![a](/../hooks/runs) ![b](/%2e%2e/hooks/runs) ![c](../../../hooks/runs)\n\n"
        "[[../../hooks/runs]]\n\nthe last words\n",
    )
    it = opens("#/vault/Hostile/Out.md", quiet=False)
    it.sees("the last words")
    for screen in ("#/vault/../hooks/runs", "#/vault/%2e%2E/hooks/runs", "#/chat/..%2F..%2Fhooks"):
        it.go(screen)
        it.go("#/vault/Hostile/Out.md")
        it.sees("the last words")
    it.go("#/vault/../hooks")
    it.sees("There is no such place.")
    asked = {urlsplit(request).path for request in it.requests}
    assert not [one for one in asked if one.startswith("/api/hooks")], asked
    (daemon.vault / "Hostile/Out.md").unlink()
