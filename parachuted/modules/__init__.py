"""The module API: every name that a module's author needs.

The daemon's parts are imported from their own files.
"""

from parachuted import home_files as _home_files
from parachuted.access.agent_config import AgentConfig as AgentConfig
from parachuted.access.agent_config import AgentNarrowing as AgentNarrowing
from parachuted.access.agent_config import SandboxConfig as SandboxConfig
from parachuted.access.notes import Activity as Activity
from parachuted.access.notes import AppendSection as AppendSection
from parachuted.access.notes import Hit as Hit
from parachuted.access.notes import LinkRow as LinkRow
from parachuted.access.notes import Note as Note
from parachuted.access.notes import NoteChange as NoteChange
from parachuted.access.notes import NoteEdit as NoteEdit
from parachuted.access.notes import NoteLink as NoteLink
from parachuted.access.notes import NotePage as NotePage
from parachuted.access.notes import NoteRow as NoteRow
from parachuted.access.notes import NoteSection as NoteSection
from parachuted.access.notes import NoteStream as NoteStream
from parachuted.access.notes import RemoveKey as RemoveKey
from parachuted.access.notes import ReplaceSpan as ReplaceSpan
from parachuted.access.notes import SetKey as SetKey
from parachuted.access.notes import SetSection as SetSection
from parachuted.access.notes import Upload as Upload
from parachuted.agents import job as _job
from parachuted.agents.job import AgentResult as AgentResult
from parachuted.home_files import REMOVED as REMOVED
from parachuted.home_files import YamlRejectedError as YamlRejectedError
from parachuted.modules.declare import command as command
from parachuted.modules.declare import event as event
from parachuted.modules.declare import interface as interface
from parachuted.modules.declare import mcp_tool as mcp_tool
from parachuted.modules.declare import route as route
from parachuted.modules.declare import schedule as schedule
from parachuted.modules.module import Module as Module
from parachuted.modules.module_state import StateAccess as StateAccess
from parachuted.modules.outside_folders import FolderAccess as FolderAccess
from parachuted.modules.results import Body as Body
from parachuted.modules.results import BytesResponse as BytesResponse
from parachuted.modules.results import Finding as Finding
from parachuted.modules.results import Response as Response
from parachuted.modules.results import ServerEvent as ServerEvent
from parachuted.modules.results import read_each as read_each
from parachuted.modules.results import reading as reading
from parachuted.modules.results import retry_on_conflict as retry_on_conflict
from parachuted.modules.scheduling import Schedules as Schedules
from parachuted.modules.scheduling import ScheduleStatus as ScheduleStatus
from parachuted.modules.services import ActivityAccess as ActivityAccess
from parachuted.modules.services import AgentResources as AgentResources
from parachuted.modules.services import AgentRun as AgentRun
from parachuted.modules.services import AgentSkill as AgentSkill
from parachuted.modules.services import AgentStep as AgentStep
from parachuted.modules.services import AgentToolCall as AgentToolCall
from parachuted.modules.services import CurrentCall as CurrentCall
from parachuted.modules.services import Services as Services
from parachuted.modules.services import is_shortened as is_shortened
from parachuted.modules.services import visible_to_agents as visible_to_agents
from parachuted.runs import granted_vault as _granted_vault
from parachuted.vault.conflict_copies import is_conflict_copy as is_conflict_copy

AgentPermissionRequest = _job.PermissionStep
AgentQuestion = _job.QuestionStep
AgentSession = _job.SessionStep
AgentTextDelta = _job.TextDelta
AgentText = _job.TextStep
AgentThinkingDelta = _job.ThinkingDelta
AgentToolUse = _job.ToolUseStep
AgentUsage = _job.UsageStep
VaultAccess = _granted_vault.GrantedVault
edit_yaml = _home_files.edit_document
read_yaml = _home_files.read_document
