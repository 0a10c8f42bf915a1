"""Bots on the page: added by a token, somebody let in, and a conversation linked to a chat."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.cli.command_line import CommandLine
from tests.web.homeserver import ServedHomeserver, served_homeserver
from tests.web.opened import Opens


@pytest.fixture
def server(daemon: CommandLine) -> Iterator[ServedHomeserver]:
    """A server that a bot has an account on, while the module is there."""
    daemon.does("modules", "install", "parachute://bots", "--trust", "trusted", "--yes")
    with served_homeserver() as server:
        yield server
        daemon.does("modules", "remove", "bots", "--yes")


def test_a_bot_is_added_and_a_conversation_linked_and_unlinked(
    opens: Opens, daemon: CommandLine, server: ServedHomeserver
):
    it = opens("#/bots", width=390, quiet=False)
    it.click("Add a Matrix bot")
    it.page.get_by_label("The server's address").fill(server.url)
    it.page.get_by_label("The bot's account").fill(server.bot_id)
    token = it.page.get_by_label("Its access token")
    token.fill("of another account")
    it.click("Connect")
    expect(it.page.get_by_role("alert")).to_contain_text("token")
    token.fill(server.token)
    it.click("Connect")
    it.sees(f"Connected as {server.bot_id}.")
    matrix = it.page.locator(".card").filter(has=it.page.get_by_role("heading", name="Matrix"))
    expect(matrix.get_by_text("connected", exact=True)).to_be_visible()

    server.write("Kim", "Hello")
    it.sees("@kim:demo")
    assert it.faults_of_sizes() == []
    it.click("Let in")
    it.sees("Kim may talk to the bot now.")
    expect(matrix).to_contain_text("@kim:demo")
    for select, value in (
        (matrix.get_by_label("In groups"), "all"),
        (it.page.get_by_role("combobox", name="Mode").last, "sandboxed"),
    ):
        with it.page.expect_response(lambda answer: answer.request.method == "PUT"):
            select.select_option(value)
    it.page.reload()
    expect(matrix.get_by_label("In groups")).to_have_value("all")
    config = it.page.evaluate("fetch('/api/bots/config').then(one => one.json())")
    assert config["defaults"]["group"]["mode"] == "sandboxed"
    assert server.token not in f"{config}{it.page.content()}"

    server.write("Kim", "What grows in the garden?")
    it.go("#/chat")
    it.page.get_by_role("link", name=re.compile("Matrix: direct message")).first.click()
    it.sees("No model can be asked now")
    it.click("How this conversation runs")
    linked = it.page.locator(".linked")
    expect(linked).to_contain_text("Matrix, direct message")
    it.click("Unlink")
    expect(linked).to_contain_text("none")
    assert it.faults_of_sizes() == []
    linked.get_by_role("combobox").select_option(label="Matrix: Kim")
    it.click("Link")
    expect(linked).to_contain_text("Matrix, direct message")

    it.go("#/bots")
    it.click("Remove…")
    it.click("Remove it")
    it.sees("The bot is removed.")
    expect(matrix).to_contain_text("not set up")
