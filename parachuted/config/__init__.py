"""Config: the settings, read once at the top; parts of the daemon receive plain values."""

from parachuted.config.load import ListedSetting as ListedSetting
from parachuted.config.load import SettingsListing as SettingsListing
from parachuted.config.load import home_folder as home_folder
from parachuted.config.load import load_settings as load_settings
from parachuted.config.load import set_setting as set_setting
from parachuted.config.settings import Settings as Settings
from parachuted.config.settings import describe_settings as describe_settings
from parachuted.config.settings import is_open_to_others as is_open_to_others
from parachuted.config.settings import listed as listed
from parachuted.config.settings import setting_text as setting_text
