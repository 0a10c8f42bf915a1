"""API: the daemon over HTTP."""

from aiohttp.web import Application

from parachuted.api.app import file_routes, make_app, make_supervisor_app, serve_module
from parachuted.api.http.authenticator import KeyAuthenticator, Mode
from parachuted.api.http.file_answers import FileAnswers
from parachuted.api.http.host_guard import HostGuard
from parachuted.api.http.middleware import ApiMiddleware
from parachuted.api.http.module_dispatcher import RESERVED, ModuleDispatcher
from parachuted.api.http.server import HttpServer, ServerLimits
from parachuted.api.http.stream import EventStreams
from parachuted.api.routes.agent_runs import AgentRunRoutes, PermissionRoutes
from parachuted.api.routes.agents import AgentRoutes, SandboxRoutes
from parachuted.api.routes.audit import AuditRoutes
from parachuted.api.routes.contexts import ContextMigrationRoutes, ContextRoutes
from parachuted.api.routes.doctor import DoctorRoutes
from parachuted.api.routes.health import HealthRoutes, LoopHealth, SupervisorRoutes, VaultHealth
from parachuted.api.routes.history import HistoryRoutes
from parachuted.api.routes.hooks import HookRoutes
from parachuted.api.routes.instructions import InstructionRoutes
from parachuted.api.routes.keys import ApiKeyRoutes
from parachuted.api.routes.loop import LoopRoutes, WorkerRoutes
from parachuted.api.routes.models import ModelRoutes
from parachuted.api.routes.module_settings import ModuleSettingRoutes
from parachuted.api.routes.modules import ModuleRoutes
from parachuted.api.routes.note_writer import NoteWriter
from parachuted.api.routes.polled import PolledRoutes, SessionMigrationRoutes
from parachuted.api.routes.prompt import PromptRoutes
from parachuted.api.routes.runs import RunRoutes, undo_limits
from parachuted.api.routes.search import ParaRoutes
from parachuted.api.routes.settings import SettingRoutes
from parachuted.api.routes.sign_in import SignInRoutes
from parachuted.api.routes.suggestions import SuggestionRoutes
from parachuted.api.routes.tls import TlsRoutes

__all__ = [
    "RESERVED",
    "AgentRoutes",
    "AgentRunRoutes",
    "ApiKeyRoutes",
    "ApiMiddleware",
    "Application",
    "AuditRoutes",
    "ContextMigrationRoutes",
    "ContextRoutes",
    "DoctorRoutes",
    "EventStreams",
    "FileAnswers",
    "HealthRoutes",
    "HistoryRoutes",
    "HookRoutes",
    "HostGuard",
    "HttpServer",
    "InstructionRoutes",
    "KeyAuthenticator",
    "LoopHealth",
    "LoopRoutes",
    "Mode",
    "ModelRoutes",
    "ModuleDispatcher",
    "ModuleRoutes",
    "ModuleSettingRoutes",
    "NoteWriter",
    "ParaRoutes",
    "PermissionRoutes",
    "PolledRoutes",
    "PromptRoutes",
    "RunRoutes",
    "SandboxRoutes",
    "ServerLimits",
    "SessionMigrationRoutes",
    "SettingRoutes",
    "SignInRoutes",
    "SuggestionRoutes",
    "SupervisorRoutes",
    "TlsRoutes",
    "VaultHealth",
    "WorkerRoutes",
    "file_routes",
    "make_app",
    "make_supervisor_app",
    "serve_module",
    "undo_limits",
]
