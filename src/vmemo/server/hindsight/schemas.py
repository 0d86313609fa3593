"""What Hindsight's client reads. What this memory can't know is null."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from vmemo.models import Profile
from vmemo.models.results import Usage

Type = Literal["world", "experience", "observation", "opinion"]


class Features(BaseModel):
    """What is switched on; a false one answers 501."""

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


class Version(BaseModel):
    """The version of the calls."""

    api_version: str
    features: Features


class Liveness(BaseModel):
    """That the process runs."""

    status: Literal["alive"] = "alive"
    version: str
    uptime_seconds: float


class Tokens(BaseModel):
    """Tokens of language models; what was cached or thought is not told apart."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    cached_tokens: int | None = None
    thoughts_tokens: int | None = None

    @staticmethod
    def of(usage: Usage) -> Tokens:
        """What an operation cost."""
        both = usage.input_tokens + usage.output_tokens
        return Tokens(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, total_tokens=both)


class Traits(BaseModel):
    """A disposition."""

    skepticism: int = Field(ge=1, le=5)
    literalism: int = Field(ge=1, le=5)
    empathy: int = Field(ge=1, le=5)

    @staticmethod
    def of(profile: Profile) -> Traits:
        """A profile's disposition."""
        return Traits.model_validate(profile.disposition.model_dump())


class BankProfile(BaseModel):
    """A bank's character; `mission` and `background` are the same text."""

    bank_id: str
    name: str
    disposition: Traits
    mission: str
    background: str

    @staticmethod
    def of(bank: str, profile: Profile) -> BankProfile:
        """A bank's profile."""
        text = profile.background
        return BankProfile(
            bank_id=bank, name=profile.name, disposition=Traits.of(profile), mission=text, background=text
        )


class Background(BaseModel):
    """The background after a piece was added."""

    mission: str
    background: str
    disposition: Traits


class BankItem(BaseModel):
    """A bank in a list."""

    bank_id: str
    name: str
    disposition: Traits
    mission: str
    created_at: str
    updated_at: None = None
    fact_count: int
    last_document_at: None = None
    last_write_at: None = None
    display_alias: None = None
    matched_aliases: tuple[str, ...] = ()


class Banks(BaseModel):
    """A page of banks."""

    banks: list[BankItem]
    total: int
    limit: int
    offset: int


class Config(BaseModel):
    """What of a bank can be configured."""

    bank_id: str
    config: dict[str, JsonValue]
    overrides: dict[str, JsonValue]


class Deleted(BaseModel):
    """That something is gone, and how many facts went with it."""

    success: Literal[True] = True
    message: str
    deleted_count: int


class Stats(BaseModel):
    """What a bank holds; its facts are those that are believed now."""

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


class Kept(BaseModel):
    """What became of retained items."""

    model_config = ConfigDict(serialize_by_alias=True)

    success: Literal[True] = True
    bank_id: str
    items_count: int
    is_async: bool = Field(serialization_alias="async")
    operation_id: str | None = None
    operation_ids: list[str] | None = None
    usage: Tokens | None = None


class Listed(BaseModel):
    """A page of any records."""

    items: list[dict[str, JsonValue]]
    total: int
    limit: int
    offset: int


class Document(BaseModel):
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


class DocumentText(Document):
    """A document with its text."""

    original_text: str
    nodes_by_fact_type: dict[str, int]
    observation_scopes: None = None


class DocumentGone(BaseModel):
    """A document that was forgotten."""

    success: Literal[True] = True
    message: str
    document_id: str
    memory_units_deleted: int


class Chunk(BaseModel):
    """A message of a document."""

    chunk_id: str
    document_id: str
    bank_id: str
    chunk_index: int
    chunk_text: str
    created_at: str


class Operation(BaseModel):
    """Queued work."""

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


class Operations(BaseModel):
    """A page of queued work."""

    bank_id: str
    total: int
    limit: int
    offset: int
    operations: list[Operation]


class Cancelled(BaseModel):
    """An operation that was cancelled."""

    success: Literal[True] = True
    message: str
    operation_id: str
