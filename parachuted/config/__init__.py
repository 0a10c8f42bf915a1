"""Config: the settings, read once at the top; parts of the daemon receive plain values."""

from parachuted.config.load import (
    ListedSetting,
    SettingsListing,
    home_folder,
    load_settings,
    set_setting,
)
from parachuted.config.settings import (
    Settings,
    describe_settings,
    is_open_to_others,
    listed,
    setting_text,
)

__all__ = [
    "ListedSetting",
    "Settings",
    "SettingsListing",
    "describe_settings",
    "home_folder",
    "is_open_to_others",
    "listed",
    "load_settings",
    "set_setting",
    "setting_text",
]
