"""Request and response models.

Options that vmemo does not support are rejected, unless they ask for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from vmemo.models import Profile
from vmemo.models.results import Usage
from vmemo_server.problems import HttpProblem

Item = TypeVar("Item")


def unsupported_option(option: str, reason: str = "") -> HttpProblem:
    """Return the problem of an option that vmemo does not support."""
    reason = f" {reason}" if reason else ""
    detail = f"vmemo does not support the option {option[:80]!r}.{reason} Nothing was changed."
    return HttpProblem(501, "NotImplemented", detail)


def is_unset(value: object, harmless: Sequence[object] = ()) -> bool:
    """Return True if a value means that the option was not sent; Hindsight's client sends nulls for defaults."""
    return value is None or value in ([], {}, "", [""]) or any(value == each for each in harmless)


class HindsightRequest(BaseModel):
    """A body or query of Hindsight's client. An unknown field is rejected, unless it is unset or harmless."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)
    harmless: ClassVar[Mapping[str, Sequence[object]]] = {}
    """Values of unsupported fields that ask for what vmemo does anyway."""

    @model_validator(mode="after")
    def _reject_unsupported(self) -> Self:
        extra: dict[str, Any] = self.model_extra or {}
        for name, value in extra.items():
            if not is_unset(value, self.harmless.get(name, ())):
                raise unsupported_option(name)
        return self


class OffsetPage(HindsightRequest):
    """Offset pagination of a list."""

    limit: int = Field(default=100, ge=0, le=10_000)
    offset: int = Field(default=0, ge=0, le=2**53)

    def of(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return the items of this page."""
        return items[self.offset : self.offset + self.limit]


FactType = Literal["world", "experience", "observation", "opinion"]


class Features(BaseModel):
    """Enabled features; calls of a disabled one answer 501."""

    observations: bool
    mcp: bool
    worker: bool
    bank_config_api: bool = True
    bank_llm_health: bool = False
    file_upload_api: bool = False
    document_export_api: bool = False
    document_import_api: bool = False
    audit_log: bool = False
    llm_trace: bool = False
    store_document_text: bool = True


class VersionResponse(BaseModel):
    """The supported version of the API."""

    api_version: str
    features: Features


class Liveness(BaseModel):
    """Liveness of the process."""

    status: Literal["alive"] = "alive"
    version: str
    uptime_seconds: float


class TokenUsage(BaseModel):
    """Tokens of language models; cached and reasoning tokens are not counted separately."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    cached_tokens: int | None = None
    thoughts_tokens: int | None = None

    @staticmethod
    def of(usage: Usage) -> TokenUsage:
        """Return the usage in Hindsight's fields."""
        both = usage.input_tokens + usage.output_tokens
        return TokenUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, total_tokens=both)


class DispositionTraits(BaseModel):
    """The traits of a disposition."""

    skepticism: int = Field(ge=1, le=5)
    literalism: int = Field(ge=1, le=5)
    empathy: int = Field(ge=1, le=5)

    @staticmethod
    def of(profile: Profile) -> DispositionTraits:
        """Return the traits of a profile."""
        return DispositionTraits.model_validate(profile.disposition.model_dump())


class BankProfile(BaseModel):
    """A bank's profile; `mission` and `background` are the same text."""

    bank_id: str
    name: str
    disposition: DispositionTraits
    mission: str
    background: str

    @staticmethod
    def of(bank: str, profile: Profile) -> BankProfile:
        """Return the profile of a bank."""
        text = profile.background
        return BankProfile(
            bank_id=bank, name=profile.name, disposition=DispositionTraits.of(profile), mission=text, background=text
        )


class BackgroundResponse(BaseModel):
    """The background after a text was merged into it."""

    mission: str
    background: str
    disposition: DispositionTraits


class BankItem(BaseModel):
    """A bank in a list."""

    bank_id: str
    name: str
    disposition: DispositionTraits
    mission: str
    created_at: str
    updated_at: None = None
    fact_count: int
    last_document_at: None = None
    last_write_at: None = None
    display_alias: None = None
    matched_aliases: tuple[str, ...] = ()


class BankList(BaseModel):
    """A page of banks."""

    banks: list[BankItem]
    total: int
    limit: int
    offset: int


class BankConfig(BaseModel):
    """The configuration of a bank."""

    bank_id: str
    config: dict[str, JsonValue]
    overrides: dict[str, JsonValue]


class DeleteResponse(BaseModel):
    """A deletion, with the number of deleted facts."""

    success: Literal[True] = True
    message: str
    deleted_count: int


class BankStats(BaseModel):
    """Counts of a bank; only current facts are counted."""

    bank_id: str
    total_nodes: int
    total_links: int
    total_documents: int
    nodes_by_fact_type: dict[str, int]
    links_by_link_type: dict[str, int]
    links_by_fact_type: dict[str, int]
    links_breakdown: dict[str, dict[str, int]]
    pending_operations: int
    failed_operations: int
    operations_by_status: dict[str, int]
    last_consolidated_at: None = None
    last_memory_write_at: str | None
    pending_consolidation: None = None
    failed_consolidation: None = None
    total_observations: int


class HindsightRetainResponse(BaseModel):
    """The result of a retain."""

    model_config = ConfigDict(serialize_by_alias=True)

    success: Literal[True] = True
    bank_id: str
    items_count: int
    is_async: bool = Field(serialization_alias="async")
    operation_id: str | None = None
    operation_ids: list[str] | None = None
    usage: TokenUsage | None = None


class ListResponse(BaseModel):
    """A page of records."""

    items: list[dict[str, JsonValue]]
    total: int
    limit: int
    offset: int


class DocumentItem(BaseModel):
    """A document in a list."""

    id: str
    bank_id: str
    content_hash: None = None
    created_at: str
    updated_at: str
    text_length: int
    memory_unit_count: int
    retain_params: None = None
    document_metadata: dict[str, str] | None = None
    tags: list[str]


class DocumentDetail(DocumentItem):
    """A document with its text."""

    original_text: str
    nodes_by_fact_type: dict[str, int]
    observation_scopes: None = None


class DeleteDocumentResponse(BaseModel):
    """A deleted document."""

    success: Literal[True] = True
    message: str
    document_id: str
    memory_units_deleted: int


class ChunkResponse(BaseModel):
    """A message of a document."""

    chunk_id: str
    document_id: str
    bank_id: str
    chunk_index: int
    chunk_text: str
    created_at: str


class OperationResponse(BaseModel):
    """A queued job, or a retain that was not waited for."""

    id: str
    operation_id: str
    task_type: str
    operation_type: str
    items_count: int
    document_id: str | None = None
    created_at: str
    updated_at: None = None
    status: Literal["pending", "processing", "completed"]
    error_message: str | None = None
    retry_count: int | None = None
    next_retry_at: str | None = None


class OperationList(BaseModel):
    """A page of operations."""

    bank_id: str
    total: int
    limit: int
    offset: int
    operations: list[OperationResponse]


class CancelResponse(BaseModel):
    """A cancelled operation."""

    success: Literal[True] = True
    message: str
    operation_id: str
