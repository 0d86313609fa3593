"""Streams as they come over the server: packets split anywhere, odd events, and connections that end."""

from __future__ import annotations

import asyncio
import json
import traceback

import pytest
from pydantic import JsonValue
from streams import DONE, REQUEST, STOP, CollectedStream, PacketServer, collect, content_chunk, serving, sse_event

from max_wait import MAX_WAIT
from vmemo.errors import LLMDenied, LLMFailed, LLMRefused, LLMUnavailable, LLMUnusable
from vmemo.models.results import Usage
from vmemo.ports import Completion


def sent(*packets: bytes, close: bool = False) -> CollectedStream:
    async def work() -> CollectedStream:
        async with serving(PacketServer(packets, close=close)) as llm:
            return await collect(llm)

    return asyncio.run(work())


def test_characters_and_events_split_over_packets_are_reassembled() -> None:
    stream = sse_event(content_chunk("ein Kätzchen ")) + sse_event(content_chunk("🐈")) + sse_event(STOP) + DONE
    streamed = sent(*(bytes([byte]) for byte in stream))
    assert streamed.deltas == ["ein Kätzchen ", "🐈"]
    assert streamed.completion == Completion(text="ein Kätzchen 🐈", usage=Usage(calls=1))


def test_many_events_in_one_packet_are_separated() -> None:
    assert sent(sse_event(content_chunk("a")) + sse_event(content_chunk("b")) + sse_event(STOP) + DONE).deltas == [
        "a",
        "b",
    ]


@pytest.mark.parametrize("end", [b"\r\n\r\n", b"\r\r", b"\n\n"])
@pytest.mark.parametrize("bytewise", [True, False])
def test_all_line_endings_are_accepted(end: bytes, bytewise: bool) -> None:
    stream = b"".join(sse_event(value, end) for value in (content_chunk("a"), content_chunk("b"), STOP))
    assert sent(*([bytes([byte]) for byte in stream] if bytewise else [stream])).deltas == ["a", "b"]


def test_comments_other_fields_and_chunks_without_text_are_ignored() -> None:
    noise = b': keep-alive\n\nevent: message\nid: 7\nretry: 10\n\ndata:{"choices": []}\n\n'
    thought: JsonValue = {"choices": [{"delta": {"role": "assistant", "content": None, "reasoning_content": "hm"}}]}
    empty: JsonValue = {"choices": [{"delta": None}]}
    streamed = sent(
        noise + sse_event(thought) + noise, sse_event(empty), sse_event(content_chunk("a")) + noise, sse_event(STOP)
    )
    assert streamed.deltas == ["a"]


def test_multiline_data_and_content_parts_are_joined() -> None:
    parts = content_chunk([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    stream = json.dumps(parts, indent=1).encode()
    assert sent(b"data: " + stream.replace(b"\n", b"\ndata: ") + b"\n\n", sse_event(STOP)).deltas == ["ab"]


def test_leading_whitespace_is_yielded_with_the_first_word() -> None:
    streamed = sent(
        sse_event(content_chunk("\n")),
        sse_event(content_chunk(" ")),
        sse_event(content_chunk("a")),
        sse_event(content_chunk(" ")),
        sse_event(STOP),
    )
    assert streamed.deltas == ["\n a", " "]


def test_the_last_usage_wins() -> None:
    counts: list[JsonValue] = [{"prompt_tokens": 3, "completion_tokens": number, "cost": 0.5} for number in (1, 2)]
    chunks = [sse_event({"choices": [], "usage": usage}) for usage in [*counts, None]]
    streamed = sent(sse_event(content_chunk("a", "stop")), *chunks, DONE)
    assert streamed.completion == Completion(text="a", usage=Usage(calls=1, input_tokens=3, output_tokens=2, cost=0.5))


@pytest.mark.parametrize("end", [DONE, sse_event(STOP), sse_event(STOP) + DONE, sse_event(STOP) + b"data: [DONE]"])
@pytest.mark.parametrize("close", [True, False])
def test_a_finish_reason_or_the_end_marker_completes_a_stream(end: bytes, close: bool) -> None:
    assert sent(sse_event(content_chunk("a")), end, close=close).deltas == ["a"]


@pytest.mark.parametrize(
    "end", [b"", b"data: [DON", sse_event(STOP)[:-1], sse_event(STOP)[:9], sse_event(content_chunk("", "error"))]
)
@pytest.mark.parametrize("close", [True, False])
def test_a_stream_that_ends_early_is_an_error(end: bytes, close: bool) -> None:
    streamed = sent(sse_event(content_chunk("a")), end or b": \n", close=close)
    assert streamed.deltas == ["a"]
    assert isinstance(streamed.error, LLMUnavailable)
    assert "broke off in the middle" in str(streamed.error)


ERROR_CHUNKS: list[tuple[JsonValue, type[LLMFailed]]] = [
    ({"error": {"code": 502, "message": "grey cat"}}, LLMUnavailable),
    ({"error": {"code": "429", "message": "grey cat"}}, LLMUnavailable),
    ({"error": {"code": 400, "message": "grey cat"}}, LLMDenied),
    ({"error": {"code": "context_length_exceeded", "type": "invalid_request_error"}}, LLMDenied),
    ({"error": {"code": "insufficient_quota", "type": None}}, LLMDenied),
    ({"error": {"code": None, "type": "overloaded_error"}}, LLMUnavailable),
    ({"error": {"code": "content_filter"}}, LLMRefused),
    ({"error": "grey cat"}, LLMUnavailable),
    ({"object": "error", "message": "grey cat", "type": "BadRequestError", "code": 400}, LLMDenied),
    ({"error": {"code": 502}, "choices": [{"delta": {"content": ""}, "finish_reason": "error"}]}, LLMUnavailable),
    ({"choices": [{"delta": {"refusal": "No"}}]}, LLMRefused),
    ({"choices": [{"delta": {}, "finish_reason": "content_filter"}]}, LLMRefused),
    ({"choices": [{"delta": {}, "finish_reason": "length"}]}, LLMUnusable),
    ({"choices": "grey cat"}, LLMUnavailable),
    ({"choices": [{"delta": {"content": 7}}]}, LLMUnavailable),
    ([], LLMUnavailable),
]


@pytest.mark.parametrize(("error", "kind"), ERROR_CHUNKS)
def test_an_error_chunk_maps_to_an_llm_error(error: JsonValue, kind: type[LLMFailed]) -> None:
    streamed = sent(sse_event(content_chunk("a")), sse_event(error), sse_event(STOP), DONE)
    assert streamed.deltas == ["a"]
    assert type(streamed.error) is kind
    assert "grey cat" not in "".join(traceback.format_exception(streamed.error))


def test_broken_json_and_an_oversized_stream_are_errors() -> None:
    assert isinstance(sent(sse_event(content_chunk("a")), b'data: {"choices": [\n\n', DONE).error, LLMUnavailable)
    flood = sent(sse_event(content_chunk("a")), *([b":" * 1024 * 1024] * 65), sse_event(STOP))
    assert isinstance(flood.error, LLMUnusable)
    assert "more than" in str(flood.error)


def test_closing_a_stream_early_releases_the_connection() -> None:
    async def work() -> None:
        server = PacketServer([sse_event(content_chunk("a")), sse_event(content_chunk("b"))], waits=True)
        async with serving(server) as llm:
            deltas = llm.stream(REQUEST)
            assert await anext(deltas) == "a"
            await deltas.aclose()
            await asyncio.wait_for(server.disconnected.wait(), MAX_WAIT)

    asyncio.run(work())


def test_cancellation_releases_the_connection() -> None:
    async def work() -> None:
        server = PacketServer([sse_event(content_chunk("a"))], waits=True)
        async with serving(server) as llm:
            deltas = llm.stream(REQUEST)
            assert await anext(deltas) == "a"
            waiting = asyncio.gather(anext(deltas))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait_for(server.disconnected.wait(), MAX_WAIT)
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(work())


class Skipping(asyncio.SelectorEventLoop):
    """A loop whose clock a test can put forward."""

    skipped = 0.0

    def time(self) -> float:
        return super().time() + self.skipped


def test_a_stalled_stream_ends_at_the_deadline() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Skipping)
        server = PacketServer([sse_event(content_chunk("a"))], waits=True)
        async with serving(server, timeout=30) as llm:
            deltas = llm.stream(REQUEST)
            assert await anext(deltas) == "a"
            waiting = asyncio.ensure_future(anext(deltas))
            await asyncio.sleep(0)
            loop.skipped += 31
            with pytest.raises(LLMUnavailable, match="did not finish its answer within 30 seconds"):
                await waiting
            await asyncio.wait_for(server.disconnected.wait(), MAX_WAIT)

    with asyncio.Runner(loop_factory=Skipping) as runner:
        runner.run(work())


def test_the_consumers_time_does_not_count_towards_the_deadline() -> None:
    async def work() -> list[str | Completion]:
        loop, pieces = asyncio.get_running_loop(), list[str | Completion]()
        assert isinstance(loop, Skipping)
        async with serving(
            PacketServer([sse_event(content_chunk("a")), sse_event(content_chunk("b")), sse_event(STOP)])
        ) as llm:
            async for piece in llm.stream(REQUEST):
                pieces.append(piece)
                loop.skipped += 3600
        return pieces

    with asyncio.Runner(loop_factory=Skipping) as runner:
        assert runner.run(work()) == ["a", "b", Completion(text="ab", usage=Usage(calls=1))]


def test_connections_are_reused_and_one_left_open_is_not_waited_for() -> None:
    stream = [sse_event(content_chunk("a")), sse_event(STOP), DONE]

    async def work(server: PacketServer) -> int:
        async with serving(server) as llm:
            assert [(await collect(llm)).deltas for _ in range(3)] == [["a"]] * 3
        return server.connections

    assert asyncio.run(work(PacketServer(stream))) == 1
    assert asyncio.run(work(PacketServer(stream, waits=True))) == 3
