"""What is shown of each setting, and where its value comes from."""

from __future__ import annotations

from parachuted.config import SettingsListing, load_settings


def test_a_variable_goes_before_the_file_and_a_login_is_not_shown(tmp_path):
    env = {"PARACHUTE_AGENT_BASE_URL": "http://me:secret@127.0.0.1:9"}
    running = load_settings(tmp_path, env, {})
    listing = SettingsListing(running, tmp_path, env, {"port": 4000, "foreground": True})
    listing.set("agent.base_url", "http://127.0.0.1:8")
    listing.set("log_level", "debug")
    found = {setting.key: setting for setting in listing.all()}

    url, level = found["agent.base_url"], found["log_level"]
    assert (url.next, url.source, url.editable) == (
        "http://[secret]@127.0.0.1:9",
        "PARACHUTE_AGENT_BASE_URL",
        False,
    )
    assert (level.value, level.next, level.editable) == ("info", "debug", True)
    assert level.source.startswith("config.yaml line ")
    assert (found["port"].next, found["port"].source) == ("4000", "--port")
