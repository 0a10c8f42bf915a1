"""Permissions: what agents ask for while they work, and a person's answers."""

from __future__ import annotations

from typing import Annotated, Protocol

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from parachuted.agents.permission import Answer, Question
from parachuted.agents.permission import Permissions as Asked
from parachuted.api.answers import json_answer
from parachuted.api.fields import Sent
from parachuted.api.route import Call, Route
from parachuted.times import Time, time_of
from parachuted.vault import printable

_MODULE = "curator"


class Given(Protocol):
    """The part that is needed here."""

    @property
    def permissions(self) -> Asked: ...


class AnswerBody(Sent):
    """`once`, `session` (as long as the agent's session lasts) or `never` (and never asked again)."""

    answer: Answer


class ForgetBody(Sent):
    """The agent that may ask again."""

    agent: Annotated[str, Field(min_length=1, max_length=200)]


class QuestionShown(TypedDict):
    """An agent's wish. `kind`: read, write, bash, network or trusted; `why`: the agent's own words; `until`: when it counts as denied."""

    id: str
    at: Time
    until: Time
    run: str
    session: str | None
    agent: str
    kind: str
    what: str
    why: str


class QuestionsShown(TypedDict):
    """What waits for an answer, and what is denied without asking."""

    permissions: list[QuestionShown]
    never: list[str]


class ForgottenShown(TypedDict):
    """How many answers were forgotten."""

    forgotten: int


class Permissions:
    """The routes. Whoever answers gives an agent more than its grant, so it takes the right to administer."""

    def __init__(self, parts: Given) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route(
                method="GET", path="/api/permissions", module=_MODULE, capability="admin", reach="paths", handle=self.listing,
                summary="What agents ask for, and wait to be answered.", answers={200: QuestionsShown},
            ),
            Route(
                method="POST", path="/api/permissions/forget", module=_MODULE, capability="admin", reach="beyond",
                handle=self.forget, body=ForgetBody,
                summary="Let an agent ask again what was answered with never.", answers={200: ForgottenShown},
            ),
            Route(
                method="POST", path="/api/permissions/{id}", module=_MODULE, capability="admin", reach="paths",
                handle=self.answer, body=AnswerBody,
                summary="Answer what an agent asks for.", answers={200: QuestionShown}, names={"id": "a question, as it is listed"},
            ),
        ]  # fmt: skip

    async def listing(self, call: Call) -> web.Response:
        """`GET /api/permissions`."""
        asked = self._parts.permissions
        never = asked.never() if call.grant.alternatives is None else []
        pending = [_shown(one) for one in asked.pending() if _is_theirs(one, call)]
        return json_answer(QuestionsShown(permissions=pending, never=list(map(printable, never))))

    async def answer(self, call: Call) -> web.Response:
        """`POST /api/permissions/{id}` with `{"answer"}`."""
        body = await call.body(AnswerBody)
        asked, name = self._parts.permissions, call.named("id")
        if not all(_is_theirs(one, call) for one in asked.pending() if one.id == name):
            raise asked.unknown(name)
        return json_answer(_shown(asked.answer(name, body.answer)))

    async def forget(self, call: Call) -> web.Response:
        """`POST /api/permissions/forget` with `{"agent"}`."""
        body = await call.body(ForgetBody)
        return json_answer(ForgottenShown(forgotten=self._parts.permissions.forget(body.agent)))


def _is_theirs(question: Question, call: Call) -> bool:
    """Who sees some paths is asked about these alone, as far as they could read or write the file themselves."""
    if call.grant.alternatives is None:
        return True
    wish = question.wish
    if wish.kind not in ("read", "write") or not call.sight.sees(wish.what):
        return False
    grant = call.identity.grant("vault", wish.kind)
    return grant is not None and grant.sees(wish.what)


def _shown(question: Question) -> QuestionShown:
    wish = question.wish
    return QuestionShown(
        id=question.id, at=time_of(question.at), until=time_of(question.until), run=question.run, session=question.session,
        agent=question.agent, kind=wish.kind, what=printable(wish.what), why=printable(wish.why),
    )  # fmt: skip
