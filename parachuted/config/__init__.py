"""Config: the settings, read once at the top; parts of the daemon receive plain values."""

from parachuted.config.listing import ListedSetting, SettingsListing
from parachuted.config.load import home_folder, load_settings, set_setting
from parachuted.config.settings import (
    AgentSettings,
    ApiSettings,
    BubbleSettings,
    BudgetSettings,
    ScanSettings,
    SettingDescription,
    Settings,
    describe_settings,
    is_loopback,
    is_open_to_others,
    listed,
    paired,
    setting_text,
)

__all__ = [
    "AgentSettings",
    "ApiSettings",
    "BubbleSettings",
    "BudgetSettings",
    "ListedSetting",
    "ScanSettings",
    "SettingDescription",
    "Settings",
    "SettingsListing",
    "describe_settings",
    "home_folder",
    "is_loopback",
    "is_open_to_others",
    "listed",
    "load_settings",
    "paired",
    "set_setting",
    "setting_text",
]
