"""Streams as they come over the wire: packets split anywhere, odd events, and connections that end."""

from __future__ import annotations

import asyncio
import json
import traceback

import pytest
from listening import ASK, DONE, STOP, Heard, Wire, event, listen, says, serving
from pydantic import JsonValue

from vmemo.errors import LLMDenied, LLMFailed, LLMRefused, LLMUnavailable, LLMUnusable
from vmemo.llm.resilient import Busy, Garbled
from vmemo.models.results import Usage
from vmemo.ports.providers import Completion


def sent(*packets: bytes, close: bool = False) -> Heard:
    async def work() -> Heard:
        async with serving(Wire(packets, close=close)) as llm:
            return await listen(llm)

    return asyncio.run(work())


def test_letters_and_events_that_are_split_over_packets_arrive_whole() -> None:
    stream = event(says("ein Kätzchen ")) + event(says("🐈")) + event(STOP) + DONE
    heard = sent(*(bytes([byte]) for byte in stream))
    assert heard.pieces == ["ein Kätzchen ", "🐈"]
    assert heard.last == Completion(text="ein Kätzchen 🐈", usage=Usage(calls=1))


def test_many_events_in_one_packet_are_told_apart() -> None:
    assert sent(event(says("a")) + event(says("b")) + event(STOP) + DONE).pieces == ["a", "b"]


@pytest.mark.parametrize("end", [b"\r\n\r\n", b"\r\r", b"\n\n"])
@pytest.mark.parametrize("bytewise", [True, False])
def test_lines_may_end_as_they_like(end: bytes, bytewise: bool) -> None:
    stream = b"".join(event(value, end) for value in (says("a"), says("b"), STOP))
    assert sent(*([bytes([byte]) for byte in stream] if bytewise else [stream])).pieces == ["a", "b"]


def test_comments_other_fields_and_chunks_without_words_add_nothing() -> None:
    noise = b': keep-alive\n\nevent: message\nid: 7\nretry: 10\n\ndata:{"choices": []}\n\n'
    thought: JsonValue = {"choices": [{"delta": {"role": "assistant", "content": None, "reasoning_content": "hm"}}]}
    empty: JsonValue = {"choices": [{"delta": None}]}
    heard = sent(noise + event(thought) + noise, event(empty), event(says("a")) + noise, event(STOP))
    assert heard.pieces == ["a"]


def test_data_on_several_lines_and_text_in_parts_are_joined() -> None:
    parts = says([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    stream = json.dumps(parts, indent=1).encode()
    assert sent(b"data: " + stream.replace(b"\n", b"\ndata: ") + b"\n\n", event(STOP)).pieces == ["ab"]


def test_blanks_before_the_first_word_come_with_it() -> None:
    heard = sent(event(says("\n")), event(says(" ")), event(says("a")), event(says(" ")), event(STOP))
    assert heard.pieces == ["\n a", " "]


def test_the_last_usage_counts() -> None:
    counts: list[JsonValue] = [{"prompt_tokens": 3, "completion_tokens": number, "cost": 0.5} for number in (1, 2)]
    chunks = [event({"choices": [], "usage": usage}) for usage in [*counts, None]]
    heard = sent(event(says("a", "stop")), *chunks, DONE)
    assert heard.last == Completion(text="a", usage=Usage(calls=1, input_tokens=3, output_tokens=2, cost=0.5))


@pytest.mark.parametrize("end", [DONE, event(STOP), event(STOP) + DONE, event(STOP) + b"data: [DONE]"])
@pytest.mark.parametrize("close", [True, False])
def test_either_word_that_it_is_finished_is_enough(end: bytes, close: bool) -> None:
    assert sent(event(says("a")), end, close=close).pieces == ["a"]


@pytest.mark.parametrize("end", [b"", b"data: [DON", event(STOP)[:-1], event(STOP)[:9], event(says("", "error"))])
@pytest.mark.parametrize("close", [True, False])
def test_an_answer_that_ends_in_silence_never_passes_for_whole(end: bytes, close: bool) -> None:
    heard = sent(event(says("a")), end or b": \n", close=close)
    assert heard.pieces == ["a"]
    assert isinstance(heard.error, Busy)
    assert "broke off in the middle" in str(heard.error)


TROUBLES: list[tuple[JsonValue, type[LLMFailed]]] = [
    ({"error": {"code": 502, "message": "grey cat"}}, Busy),
    ({"error": {"code": "429", "message": "grey cat"}}, Busy),
    ({"error": {"code": 400, "message": "grey cat"}}, LLMDenied),
    ({"error": {"code": "context_length_exceeded", "type": "invalid_request_error"}}, LLMDenied),
    ({"error": {"code": "insufficient_quota", "type": None}}, LLMDenied),
    ({"error": {"code": None, "type": "overloaded_error"}}, Busy),
    ({"error": {"code": "content_filter"}}, LLMRefused),
    ({"error": "grey cat"}, Busy),
    ({"object": "error", "message": "grey cat", "type": "BadRequestError", "code": 400}, LLMDenied),
    ({"error": {"code": 502}, "choices": [{"delta": {"content": ""}, "finish_reason": "error"}]}, Busy),
    ({"choices": [{"delta": {"refusal": "No"}}]}, LLMRefused),
    ({"choices": [{"delta": {}, "finish_reason": "content_filter"}]}, LLMRefused),
    ({"choices": [{"delta": {}, "finish_reason": "length"}]}, LLMUnusable),
    ({"choices": "grey cat"}, Garbled),
    ({"choices": [{"delta": {"content": 7}}]}, Garbled),
    ([], Garbled),
]


@pytest.mark.parametrize(("error", "kind"), TROUBLES)
def test_an_error_inside_a_stream_is_the_right_one(error: JsonValue, kind: type[LLMFailed]) -> None:
    heard = sent(event(says("a")), event(error), event(STOP), DONE)
    assert heard.pieces == ["a"]
    assert type(heard.error) is kind
    assert "grey cat" not in "".join(traceback.format_exception(heard.error))


def test_broken_json_and_a_flood_are_no_answer() -> None:
    assert isinstance(sent(event(says("a")), b'data: {"choices": [\n\n', DONE).error, Garbled)
    flood = sent(event(says("a")), *([b":" * 1024 * 1024] * 65), event(STOP))
    assert isinstance(flood.error, LLMUnusable)
    assert "more than" in str(flood.error)


def test_who_stops_early_releases_the_connection() -> None:
    async def work() -> None:
        wire = Wire([event(says("a")), event(says("b"))], waits=True)
        async with serving(wire) as llm:
            told = llm.stream(ASK)
            assert await anext(told) == "a"
            await told.aclose()
            await asyncio.wait_for(wire.left.wait(), 30)

    asyncio.run(work())


def test_who_is_cancelled_releases_the_connection() -> None:
    async def work() -> None:
        wire = Wire([event(says("a"))], waits=True)
        async with serving(wire) as llm:
            told = llm.stream(ASK)
            assert await anext(told) == "a"
            waiting = asyncio.gather(anext(told))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait_for(wire.left.wait(), 30)
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(work())


def test_a_stream_that_stops_in_the_middle_ends_at_the_deadline() -> None:
    async def work() -> Heard:
        wire = Wire([event(says("a"))], waits=True)
        async with serving(wire, timeout=0.2) as llm:
            heard = await listen(llm)
            await asyncio.wait_for(wire.left.wait(), 30)
            return heard

    heard = asyncio.run(work())
    assert heard.pieces == ["a"]
    assert isinstance(heard.error, LLMUnavailable)
    assert "no whole answer within 0.2 seconds" in str(heard.error)


class Skipping(asyncio.SelectorEventLoop):
    """A loop whose clock a test can put forward."""

    skipped = 0.0

    def time(self) -> float:
        return super().time() + self.skipped


def test_the_time_that_a_reader_takes_is_not_the_servers() -> None:
    async def work() -> list[str | Completion]:
        loop, pieces = asyncio.get_running_loop(), list[str | Completion]()
        assert isinstance(loop, Skipping)
        async with serving(Wire([event(says("a")), event(says("b")), event(STOP)])) as llm:
            async for piece in llm.stream(ASK):
                pieces.append(piece)
                loop.skipped += 3600
        return pieces

    with asyncio.Runner(loop_factory=Skipping) as runner:
        assert runner.run(work()) == ["a", "b", Completion(text="ab", usage=Usage(calls=1))]


def test_a_connection_is_used_again_and_one_that_stays_open_after_the_end_is_not_waited_for() -> None:
    stream = [event(says("a")), event(STOP), DONE]

    async def work(wire: Wire) -> int:
        async with serving(wire) as llm:
            assert [(await listen(llm)).pieces for _ in range(3)] == [["a"]] * 3
        return wire.connections

    assert asyncio.run(work(Wire(stream))) == 1
    assert asyncio.run(work(Wire(stream, waits=True))) == 3
