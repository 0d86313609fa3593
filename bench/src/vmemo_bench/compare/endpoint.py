"""An OpenAI-compatible endpoint on loopback that embeds with a given embedder, for systems in other processes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from vmemo.ports import Embedder


class EmbeddingsRequest(BaseModel):
    """A request; the model is named after the kind of text, because the API has no field for it."""

    input: list[str]
    model: Literal["query", "document"]


@asynccontextmanager
async def serve_embeddings(embedder: Embedder) -> AsyncGenerator[str]:
    """Yield the base URL of an endpoint that is served until the end of the block."""
    # Connections wait in the socket's queue until the server has started.
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(_app(embedder), log_level="error"))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        await task


def _app(embedder: Embedder) -> FastAPI:
    app = FastAPI()

    @app.post("/v1/embeddings")
    async def embed(request: EmbeddingsRequest) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction]
        vectors = await embedder.embed(request.input, request.model)
        rows = [
            {"object": "embedding", "index": number, "embedding": vector.tolist()}
            for number, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        return {"object": "list", "data": rows, "model": request.model, "usage": usage}

    return app
