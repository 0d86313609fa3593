"""The REST route of each request, and the conversion of its response."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from vmemo.client.connection import Call, Problem, path_of
from vmemo.embedding.token_counter import count_tokens
from vmemo.errors import InvalidInput, ServerFailed
from vmemo.llm.caller_schema import CallerSchema
from vmemo.models import Entity, Episode, Fact, Message, Profile, Provenance, requests as r
from vmemo.models.prompt_context import PromptContext
from vmemo.models.recalled import Recalled
from vmemo.models.records import BankId, ConfidenceChange, EntityId, FormerProfile, Merge
from vmemo.models.requests import Request, Returns
from vmemo.models.results import Answer, DerivationProblem, Forgotten, Job, Maintained, Retained, Status
from vmemo.models.webhooks import SignedWebhook, Webhook

R = TypeVar("R")
Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    """Some records, and the cursor of the next page."""

    items: tuple[Item, ...]
    next: str | None = None


class _Id(BaseModel):
    id: str


def _fields(request: Request) -> Mapping[str, object]:
    """Return the fields that differ from their defaults, under their names in JSON."""
    return request.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _reflection(request: r.ReflectRequest) -> Mapping[str, object]:
    if request.answer_schema is None:
        return _fields(request)
    fields = _fields(request.model_copy(update={"answer_schema": None}))
    return {**fields, "schema": CallerSchema.of(request.answer_schema).schema}


def _items(page: Page[Item]) -> list[Item]:
    return list(page.items)


def _retained(response: Mapping[str, Any]) -> Retained:
    """Return the result, with a problem of the server (RFC 9457) as the library's."""
    problem = response.get("problem")
    if problem is None:
        return Retained.of(response)
    found = Problem.model_validate(problem)
    return Retained.of({**response, "problem": DerivationProblem(error=found.kind, detail=found.detail)})


def _counted(response: Recalled) -> Recalled:
    return response.counted_by(count_tokens)


@dataclass(frozen=True)
class Route:
    """A method and a path under the bank; a part in braces is a field of the request."""

    method: str
    path: str
    response: Any
    convert: Callable[[Any], object] = lambda response: response
    """Converts the response to the verb's result."""
    content: Callable[[Any], Mapping[str, object]] = _fields
    """Returns the body, or the query parameters of a GET."""
    reads: bool = False

    def call(self, request: Request, bank: BankId) -> Call:
        content = dict(self.content(request))
        parts = [part for part in self.path.split("/") if part]
        values = [str(content.pop(part[1:-1])) if part.startswith("{") else part for part in parts]
        path = path_of("v1", "banks", bank, *values)
        if self.method == "GET":
            # The server names a page's `after` its cursor, and writes flags in lower case.
            params = {
                "cursor" if name == "after" else name: str(value).lower() if isinstance(value, bool) else str(value)
                for name, value in content.items()
            }
            return Call(method="GET", path=path, params=params)
        try:
            body = to_json(content, inf_nan_mode="constants") if content else None
        except (PydanticSerializationError, ValueError, RecursionError) as error:
            problem = type(error).__name__
            raise InvalidInput(f"The request can't be encoded as JSON in valid Unicode: {problem}.") from error
        return Call(method=self.method, path=path, body=body, reads=self.reads, once=not self.reads)


_GET, _POST = "GET", "POST"
ROUTES: Mapping[type[Returns[object]], Route] = {
    r.RetainRequest: Route(_POST, "messages", dict[str, Any], _retained),
    r.ProcessRequest: Route(_POST, "process", Retained),
    r.RecallRequest: Route(_POST, "recall", Recalled, _counted, reads=True),
    r.RetrieveRequest: Route(_POST, "retrieve", Recalled, _counted, reads=True),
    r.ContextRequest: Route(_POST, "context", PromptContext, reads=True),
    r.ReflectRequest: Route(_POST, "reflect", Answer, content=_reflection),
    r.ForgetRequest: Route(_POST, "forget", Forgotten),
    r.ForgetContentRequest: Route(_POST, "forget", Forgotten),
    r.WhyRequest: Route(_GET, "facts/{fact}/why", Provenance),
    r.FactRequest: Route(_GET, "facts/{fact}", Fact),
    r.FactHistoryRequest: Route(_GET, "facts/{fact}/history", Page[Fact], _items),
    r.UpdateFactRequest: Route("PATCH", "facts/{fact}", Fact),
    r.DeleteFactRequest: Route("DELETE", "facts/{fact}", Forgotten),
    r.PinFactRequest: Route("PUT", "facts/{fact}/pin", Fact),
    r.FeedbackRequest: Route("PUT", "facts/{fact}/feedback", Fact),
    r.StatusRequest: Route(_GET, "", Status),
    r.ProfileRequest: Route(_GET, "profile", Profile),
    r.ProfileUpdate: Route("PUT", "profile", Profile, content=lambda request: request.profile.model_dump(mode="json")),
    r.FormerProfilesRequest: Route(_GET, "profile/history", Page[FormerProfile], _items),
    r.BackgroundRequest: Route(_POST, "profile/background", Profile),
    r.MessagesRequest: Route(_GET, "messages", Page[Message], _items),
    r.EpisodesRequest: Route(_GET, "episodes", Page[Episode], _items),
    r.FactsRequest: Route(_GET, "facts", Page[Fact], _items),
    r.EntitiesRequest: Route(_GET, "entities", Page[Entity], _items),
    r.OpinionsRequest: Route(_GET, "opinions", Page[Fact], _items),
    r.ObservationsRequest: Route(_GET, "observations", Page[Fact], _items),
    r.TrajectoryRequest: Route(_GET, "opinions/{opinion}/trajectory", Page[ConfidenceChange], _items),
    r.MergesRequest: Route(_GET, "merges", Page[Merge], _items),
    r.MergeEntitiesRequest: Route(_POST, "merges", Merge),
    r.UndoMergeRequest: Route("DELETE", "merges/{merge}", _Id, lambda response: EntityId(response.id)),
    r.JobsRequest: Route(_GET, "jobs", Page[Job], _items),
    r.WebhooksRequest: Route(_GET, "webhooks", Page[Webhook], _items),
    r.AddWebhookRequest: Route(_POST, "webhooks", SignedWebhook),
    r.DeleteWebhookRequest: Route("DELETE", "webhooks/{webhook}", Webhook),
    r.MaintainRequest: Route(_POST, "maintain", Maintained),
    r.ReprocessRequest: Route(_POST, "reprocess", Retained),
}
"""Every request except that for the names of all banks, which belongs to no bank."""
DELETE_BANK = Route("DELETE", "", Forgotten, content=lambda _: {})


def route_of(request: Returns[object]) -> Route:
    return DELETE_BANK if isinstance(request, r.ForgetRequest) and request.bank else ROUTES[type(request)]


def parse(kind: Any, body: bytes | str, host: str) -> Any:
    """Return a response as the type that is expected; raise ServerFailed if it is something else."""
    try:
        return TypeAdapter(kind).validate_json(body)
    except ValidationError as error:
        # The response may contain memories: report only the place and the rule.
        problem = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, problem["loc"])) or "the body"
        raise ServerFailed(
            f"{host} returned something else than {kind.__name__}: {place}: {problem['msg']}. Use the same version of "
            "client and server."
        ) from None
