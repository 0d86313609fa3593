"""Every field of every request model is offered by REST, MCP, the command line and the client.

A field that an interface renames or leaves out is listed here with the reason, so a new field fails this test until
every interface offers it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Unpack, get_args, get_origin, get_type_hints

import pytest
from pydantic import BaseModel
from scripts.cli_reference import all_commands

from vmemo import Memory
from vmemo.client import Client
from vmemo.models import requests as r
from vmemo.models.requests import IGNORED_KEYS, Request
from vmemo_conformance.embedders import HashEmbedder
from vmemo_server.app import create_app
from vmemo_server.auth import Principal
from vmemo_server.dependencies import AppState
from vmemo_server.mcp.tools import TOOLS

Interface = Literal["rest", "mcp", "cli", "client"]
INTERFACES: tuple[Interface, ...] = ("rest", "mcp", "cli", "client")
BANK = "/v1/banks/{bank}"
OPERATORS = "maintenance of a bank is up to its operators, not to a model"
REPEATED = "the server sets it for requests that may be repeated"
TUNING = "tunes or debugs a query, which a model should not decide"


@dataclass(frozen=True)
class Offer:
    """The route, tool, command and client verb of a request; None where the interface leaves it out."""

    rest: tuple[str, str]
    mcp: str | None
    cli: str | None
    client: str | None


OFFERS: Mapping[type[Request], Offer] = {
    r.RetainRequest: Offer(("POST", f"{BANK}/messages"), "retain", "retain", "retain"),
    r.ProcessRequest: Offer(("POST", f"{BANK}/process"), None, "process", "process"),
    r.RecallRequest: Offer(("POST", f"{BANK}/recall"), "recall", "recall", "recall"),
    r.RetrieveRequest: Offer(("POST", f"{BANK}/retrieve"), None, "recall", "retrieve"),
    r.ContextRequest: Offer(("POST", f"{BANK}/context"), "context", "context", "context"),
    r.ReflectRequest: Offer(("POST", f"{BANK}/reflect"), "reflect", "reflect", "reflect"),
    r.ForgetRequest: Offer(("POST", f"{BANK}/forget"), "forget", "forget", "forget"),
    r.WhyRequest: Offer(("GET", f"{BANK}/facts/{{fact}}/why"), "why", "why", "why"),
    r.FactRequest: Offer(("GET", f"{BANK}/facts/{{fact}}"), "why", "fact get", "get"),
    r.FactHistoryRequest: Offer(("GET", f"{BANK}/facts/{{fact}}/history"), "why", "fact history", "history"),
    r.UpdateFactRequest: Offer(("PATCH", f"{BANK}/facts/{{fact}}"), "edit_memory", "fact update", "update"),
    r.DeleteFactRequest: Offer(("DELETE", f"{BANK}/facts/{{fact}}"), "forget", "fact delete", "delete"),
    r.PinFactRequest: Offer(("PUT", f"{BANK}/facts/{{fact}}/pin"), "edit_memory", "fact pin", "pin"),
    r.FeedbackRequest: Offer(("PUT", f"{BANK}/facts/{{fact}}/feedback"), "edit_memory", "fact feedback", "feedback"),
    r.StatusRequest: Offer(("GET", BANK), "status", "inspect", "status"),
    r.BanksRequest: Offer(("GET", "/v1/banks"), "list_banks", "bank list", "banks"),
    r.ProfileRequest: Offer(("GET", f"{BANK}/profile"), "status", "profile", "profile"),
    r.CreateBankRequest: Offer(("PUT", BANK), None, "bank create", None),
    r.ProfileUpdate: Offer(("PUT", f"{BANK}/profile"), "set_profile", "profile", "profile"),
    r.FormerProfilesRequest: Offer(("GET", f"{BANK}/profile/history"), None, "profile", "former_profiles"),
    r.BackgroundRequest: Offer(("POST", f"{BANK}/profile/background"), "set_profile", "profile", "add_background"),
    r.MessagesRequest: Offer(("GET", f"{BANK}/messages"), "browse", "inspect", "messages"),
    r.EpisodesRequest: Offer(("GET", f"{BANK}/episodes"), None, "inspect", "episodes"),
    r.FactsRequest: Offer(("GET", f"{BANK}/facts"), "browse", "inspect", "facts"),
    r.EntitiesRequest: Offer(("GET", f"{BANK}/entities"), "browse", "entity list", "entities"),
    r.OpinionsRequest: Offer(("GET", f"{BANK}/opinions"), "browse", "opinions", "opinions"),
    r.ObservationsRequest: Offer(("GET", f"{BANK}/observations"), "browse", "observations", "observations"),
    r.TrajectoryRequest: Offer(("GET", f"{BANK}/opinions/{{opinion}}/trajectory"), "why", "opinions", "trajectory"),
    r.MergesRequest: Offer(("GET", f"{BANK}/merges"), None, "entity merges", "merges"),
    r.MergeEntitiesRequest: Offer(("POST", f"{BANK}/merges"), None, "entity merge", "merge_entities"),
    r.UndoMergeRequest: Offer(("DELETE", f"{BANK}/merges/{{merge}}"), None, "entity undo", "undo_merge"),
    r.JobsRequest: Offer(("GET", f"{BANK}/jobs"), None, "jobs", "jobs"),
    r.WebhooksRequest: Offer(("GET", f"{BANK}/webhooks"), None, "webhook list", "webhooks"),
    r.AddWebhookRequest: Offer(("POST", f"{BANK}/webhooks"), None, "webhook add", "add_webhook"),
    r.DeleteWebhookRequest: Offer(("DELETE", f"{BANK}/webhooks/{{webhook}}"), None, "webhook delete", "delete_webhook"),
    r.MaintainRequest: Offer(("POST", f"{BANK}/maintain"), None, "maintain", "maintain"),
    r.ReprocessRequest: Offer(("POST", f"{BANK}/reprocess"), None, "reprocess", "reprocess"),
    r.CreateKeyRequest: Offer(("POST", "/v1/keys"), None, "keys create", None),
}
NOT_OFFERED: Mapping[tuple[Interface, type[Request]], str] = {
    ("mcp", r.ProcessRequest): "retain derives facts at once, and a worker retries failures",
    ("mcp", r.RetrieveRequest): "recall limits the result by tokens, which is what a model pays for",
    ("mcp", r.FormerProfilesRequest): OPERATORS,
    ("mcp", r.CreateBankRequest): "retain creates the bank",
    ("mcp", r.EpisodesRequest): "episodes group messages; browse lists the messages and facts themselves",
    ("mcp", r.MergesRequest): OPERATORS,
    ("mcp", r.MergeEntitiesRequest): OPERATORS,
    ("mcp", r.UndoMergeRequest): OPERATORS,
    ("mcp", r.JobsRequest): OPERATORS,
    ("mcp", r.WebhooksRequest): OPERATORS,
    ("mcp", r.AddWebhookRequest): "a model must not send memories to an address of its choice",
    ("mcp", r.DeleteWebhookRequest): OPERATORS,
    ("mcp", r.MaintainRequest): OPERATORS,
    ("mcp", r.ReprocessRequest): OPERATORS,
    ("mcp", r.CreateKeyRequest): "a model must not create credentials",
    ("client", r.CreateBankRequest): "open() and every verb create the bank",
    ("client", r.CreateKeyRequest): "keys belong to the server, not to a bank",
}
PAGE = {"after": "cursor"}
TIMES = {"occurred": "after"}
"""Two flat fields, `after` and `before`, replace the interval."""
PROFILE = {"profile": "name"}
"""The fields of the profile stand alone."""
RENAMED: Mapping[tuple[Interface, type[Request]], Mapping[str, str]] = {
    ("rest", r.CreateBankRequest): PROFILE,
    ("rest", r.ProfileUpdate): PROFILE,
    ("rest", r.MessagesRequest): PAGE,
    ("rest", r.EpisodesRequest): PAGE,
    ("rest", r.FactsRequest): PAGE,
    ("rest", r.EntitiesRequest): PAGE,
    ("mcp", r.RecallRequest): TIMES,
    ("mcp", r.ReflectRequest): TIMES,
    ("mcp", r.ProfileUpdate): PROFILE,
    ("mcp", r.BackgroundRequest): {"snippet": "add_background"},
    ("mcp", r.MessagesRequest): PAGE,
    ("mcp", r.FactsRequest): PAGE,
    ("mcp", r.EntitiesRequest): PAGE,
    ("mcp", r.TrajectoryRequest): {"opinion": "fact"},
    ("cli", r.RetainRequest): {"messages": "text", "infer": "no_infer"},
    ("cli", r.RecallRequest): TIMES,
    ("cli", r.RetrieveRequest): TIMES,
    ("cli", r.ReflectRequest): TIMES,
    ("cli", r.ForgetRequest): {"messages": "message", "bank": "everything"},
    ("cli", r.CreateBankRequest): PROFILE,
    ("cli", r.ProfileUpdate): PROFILE,
    ("cli", r.BackgroundRequest): {"snippet": "add_background"},
    ("cli", r.TrajectoryRequest): {"opinion": "why"},
    ("cli", r.AddWebhookRequest): {"events": "event"},
    ("cli", r.CreateKeyRequest): {"banks": "bank", "expires_at": "days"},
    ("client", r.RetainRequest): {"messages": "content"},
    ("client", r.ProfileUpdate): {"profile": "new"},
}
WEIGHTS = dict.fromkeys(("recency_half_life", "importance_weight"), TUNING)
RARE = dict.fromkeys(
    ("networks", "tags_match", "metadata", "known_at", "include_expired", "now", "explain", "budget"), TUNING
)
"""Every argument of a tool costs tokens in each conversation."""
EXCLUDED: Mapping[tuple[Interface, type[Request]], Mapping[str, str]] = {
    ("rest", r.ForgetRequest): {"bank": "DELETE /v1/banks/{bank} deletes a bank and needs admin permission"},
    ("mcp", r.RetainRequest): {"infer": TUNING, "wait": "a model reads the result at once"},
    ("mcp", r.RecallRequest): {**WEIGHTS, **RARE},
    ("mcp", r.ReflectRequest): {
        **WEIGHTS,
        **RARE,
        **dict.fromkeys(("max_lookups", "max_tokens", "opinions"), TUNING),
        "schema": "a tool returns text",
    },
    ("mcp", r.ContextRequest): {"now": TUNING, "precise": TUNING, "session": "a model does not build its own prompt"},
    ("mcp", r.ForgetRequest): {"bank": "the argument `bank` names a bank; delete_bank deletes one"},
    ("mcp", r.FactsRequest): {
        "with_embeddings": "a model can't read embeddings",
        "instructions": "browse lists the kind `instructions`",
        "pinned": "browse lists the kind `pinned`",
        "feedback": "browse lists the kind `feedback`",
    },
    ("cli", r.RetainRequest): {"wait": "a command waits; use `vmemo worker` for queued jobs"},
    ("cli", r.AddWebhookRequest): {"id": REPEATED},
    ("client", r.AddWebhookRequest): {"id": REPEATED},
    ("cli", r.PinFactRequest): {"pinned": "`vmemo fact unpin` unpins"},
    ("cli", r.ProcessRequest): {"messages": "the command processes and reports all pending messages"},
    ("cli", r.ReflectRequest): {"explain": "`vmemo recall --explain` shows it"},
    ("cli", r.FactsRequest): {
        "with_embeddings": "`vmemo export` writes embeddings",
        "instructions": "`vmemo inspect instructions` lists them",
        "pinned": "`vmemo inspect pinned` lists them",
        "feedback": "`vmemo inspect feedback` lists them",
    },
}


def requests() -> Iterator[type[Request]]:
    """Yield every concrete request model."""
    for value in vars(r).values():
        if isinstance(value, type) and issubclass(value, Request) and value.__module__.endswith("requests"):
            yield value


PARTS = {
    *(r.Request, r.Expiry, r.NewMessage, r.MessageDefaults),
    *(
        r.FactFilters,
        r.RecallFilters,
        r.SeveralBanks,
        r.PageRequest,
        r.OneFact,
        r.FactText,
        r.PinState,
        r.FactJudgement,
    ),
}
"""Models that are parts of others."""


def test_every_request_model_has_an_offer() -> None:
    assert set(requests()) - PARTS - {r.ForgetContentRequest} == set(OFFERS)


@pytest.fixture(scope="module")
def openapi() -> dict[str, Any]:
    memory = Memory("sqlite:///:memory:", embedder=HashEmbedder())
    return create_app(AppState(memory, keyless=True)).openapi()


def rest_fields(openapi: dict[str, Any], method: str, path: str) -> set[str]:
    """Return the path, query and body fields of a route."""
    operation = openapi["paths"][path][method.lower()]
    parameters = {each["name"] for each in operation.get("parameters", ())}
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    return parameters | _properties(body, openapi["components"]["schemas"])


def _properties(schema: Mapping[str, Any], named: Mapping[str, Any]) -> set[str]:
    if "$ref" in schema:
        return _properties(named[schema["$ref"].rpartition("/")[2]], named)
    return set(schema.get("properties", ())).union(*(_properties(each, named) for each in schema.get("anyOf", ())))


def mcp_fields(tool: str) -> set[str]:
    """Return the arguments of a tool."""
    return set(TOOLS[tool].definition(Principal()).input_schema["properties"])


def cli_fields(command: str) -> set[str]:
    """Return the arguments and options of a command."""
    found: Any = all_commands()
    for name in command.split():
        found = found.commands[name]
    return {parameter.name for parameter in found.params}


def client_fields(verb: str) -> set[str]:
    """Return the parameters of a verb, including those of its options."""
    function = getattr(Client, verb)
    names = set(inspect.signature(function).parameters)
    for hint in get_type_hints(function).values():
        if get_origin(hint) is Unpack:
            names |= get_args(hint)[0].__annotations__.keys() | get_type_hints(get_args(hint)[0]).keys()
    return names


def fields_of(request: type[BaseModel]) -> list[str]:
    """Return the names of a request's fields in JSON."""
    return [field.alias or name for name, field in request.model_fields.items()]


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("request_model", OFFERS, ids=lambda each: each.__name__)
def test_every_field_is_offered(request_model: type[Request], interface: Interface, openapi: dict[str, Any]) -> None:
    offer = getattr(OFFERS[request_model], interface)
    assert (offer is None) == ((interface, request_model) in NOT_OFFERED)
    if offer is None:
        return
    match interface:
        case "rest":
            offered = rest_fields(openapi, *offer)
        case "mcp":
            offered = mcp_fields(offer)
        case "cli":
            offered = cli_fields(offer)
        case "client":
            offered = client_fields(offer)
    if interface in ("rest", "mcp"):
        # There `bank` names the bank of the request.
        offered -= {"bank"}
    renamed = RENAMED.get((interface, request_model), {})
    excluded = EXCLUDED.get((interface, request_model), {})
    for name in fields_of(request_model):
        assert (renamed.get(name, name) in offered) != (name in excluded), name
    assert {*renamed, *excluded} <= set(fields_of(request_model))


MESSAGE_OPTIONS = {"content": "text"}


@pytest.mark.parametrize("interface", INTERFACES)
def test_every_field_of_a_message_is_offered(interface: Interface, openapi: dict[str, Any]) -> None:
    # The recording time is the library's own: only `Message` objects carry it.
    fields = set(r.NewMessage.model_fields) - {"recorded_at"}
    match interface:
        case "rest":
            offered = set(openapi["components"]["schemas"]["NewMessage"]["properties"])
            assert offered == fields | {"name", *IGNORED_KEYS}
        case "mcp":
            # A model names these once for all messages; ids, metadata and lengths of time are for programs.
            shared = {"document", "tags", "expires_at"}
            properties: Any = TOOLS["retain"].definition(Principal()).input_schema["properties"]
            own = set(properties["messages"]["items"]["properties"])
            assert own | shared == fields - {"id", "metadata", "ttl"}
            assert shared <= set(properties)
        case "cli":
            # Files of messages hold ids; a text on the command line gets one.
            assert {MESSAGE_OPTIONS.get(name, name) for name in fields - {"id"}} <= cli_fields("retain")
        case "client":
            # The content and the id are those of a `Message`.
            assert fields - {"content", "id"} <= client_fields("retain")
