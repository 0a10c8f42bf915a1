"""Permissions: what agents ask for while they work, and a person's answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from parachuted.agents.permission import Answer, PendingPermission, PermissionRequests
from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import ApiCall, RequestModel
from parachuted.times import Time, time_of
from parachuted.vault import printable

_MODULE = "curator"


class AnswerPermissionRequest(RequestModel):
    """`once`, `session` (as long as the agent's session lasts), `deny` (this time) or `never` (and
    never asked again).
    """

    answer: Answer


class ForgetPermissionsRequest(RequestModel):
    """The agent that may ask again."""

    agent: Annotated[str, Field(min_length=1, max_length=200)]


class PermissionRequestResponse(TypedDict):
    """An agent's wish.

    `kind`: read, write, bash, network or trusted; `why`: the agent's own words; `until`: when it
    counts as denied.
    """

    id: str
    at: Time
    until: Time
    run: str
    session: str | None
    agent: str
    kind: str
    what: str
    why: str


class PermissionRequestsResponse(TypedDict):
    """What waits for an answer, and what is denied without asking."""

    permissions: list[PermissionRequestResponse]
    never: list[str]


class ForgetPermissionsResponse(TypedDict):
    """How many answers were forgotten."""

    forgotten: int


class PermissionRoutes:
    """The routes.

    An answer gives an agent more than its grant, so it takes the right to administer.
    """

    def __init__(self, permissions: PermissionRequests) -> None:
        self._permissions = permissions

    @get("/api/permissions", _MODULE, "admin", reach="paths")
    async def listing(self, call: ApiCall) -> PermissionRequestsResponse:
        """List the permission requests that wait for an answer."""
        asked = self._permissions
        never = asked.never() if call.grant.alternatives is None else []
        pending = [_shown(one) for one in asked.pending() if _is_theirs(one, call)]
        return PermissionRequestsResponse(permissions=pending, never=list(map(printable, never)))

    @post(
        "/api/permissions/{id}",
        _MODULE,
        "admin",
        reach="paths",
        names={"id": "a question, as it is listed"},
    )
    async def answer(
        self, call: ApiCall, id_: str, body: AnswerPermissionRequest
    ) -> PermissionRequestResponse:
        """Answer a permission request."""
        asked, name = self._permissions, id_
        if not all(_is_theirs(one, call) for one in asked.pending() if one.id == name):
            raise asked.unknown(name)
        return _shown(asked.answer(name, body.answer))

    @post("/api/permissions/forget", _MODULE, "admin", reach="beyond")
    async def forget(self, body: ForgetPermissionsRequest) -> ForgetPermissionsResponse:
        """Forget the answers of `never`, so that an agent can ask again."""
        return ForgetPermissionsResponse(forgotten=self._permissions.forget(body.agent))


def _is_theirs(question: PendingPermission, call: ApiCall) -> bool:
    """Who sees some paths is asked about these alone, as far as they could read or write the file
    themselves.
    """
    if call.grant.alternatives is None:
        return True
    request = question.request
    if request.kind not in ("read", "write") or not call.sight.sees(request.what):
        return False
    grant = call.identity.grant("vault", request.kind)
    return grant is not None and grant.sees(request.what)


def _shown(question: PendingPermission) -> PermissionRequestResponse:
    request = question.request
    return PermissionRequestResponse(
        id=question.id,
        at=time_of(question.at),
        until=time_of(question.until),
        run=question.run,
        session=question.session,
        agent=question.agent,
        kind=request.kind,
        what=printable(request.what),
        why=printable(request.why),
    )
