"""LangChain: tools for memory, and a retriever of facts."""

from __future__ import annotations

from typing import Any

from pydantic import Field, SkipValidation

from vmemo import Recalled
from vmemo.sync import twin
from vmemo_integrations import RECALLED_TOKENS, AnyMemory, MemoryTools, missing_extra

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.tools import BaseTool, StructuredTool
except ImportError as error:
    raise missing_extra("LangChain", "langchain") from error


def memory_tools(memory: AnyMemory, *, max_tokens: int = RECALLED_TOKENS) -> list[BaseTool]:
    """Return the tools `remember` and `recall` for an agent; both work in sync and async runs."""
    tools = _Tools(memory, max_tokens=max_tokens)
    return [_tool(tools.remember, tools.remember_sync), _tool(tools.recall, tools.recall_sync)]


def _tool(coroutine: Any, function: Any) -> StructuredTool:
    tool = StructuredTool.from_function(coroutine=coroutine, parse_docstring=True)
    return tool.model_copy(update={"func": function})


class _Tools(MemoryTools):
    remember_sync = twin(MemoryTools.remember)
    recall_sync = twin(MemoryTools.recall)


class VmemoRetriever(BaseRetriever):
    """A retriever that returns the most relevant facts as documents."""

    memory: SkipValidation[AnyMemory]
    top_k: int = Field(default=10, description="Facts to return, at most.")
    filters: dict[str, Any] = Field(
        default_factory=dict[str, Any], description="Further arguments of `Memory.retrieve`, such as tags or at_time."
    )

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return _documents(self.memory.retrieve_sync(query, top_k=self.top_k, **self.filters))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        return _documents(await self.memory.retrieve(query, top_k=self.top_k, **self.filters))


def _documents(found: Recalled) -> list[Document]:
    return [
        Document(
            id=hit.id,
            page_content=hit.text,
            metadata={
                **hit.fact.metadata,
                "score": hit.score,
                "network": hit.fact.network,
                "mentioned_at": hit.fact.mentioned_at.isoformat(),
                "tags": list(hit.fact.tags),
                "messages": list(hit.fact.messages),
            },
        )
        for hit in found.hits
    ]
