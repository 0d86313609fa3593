"""Cassettes: the requests of a run to language models with their answers, to be replayed without a model.

A cassette is a file of JSON Lines, compressed if its name ends in .xz. Its first line describes the recording: the
versions of vmemo and of the prompts, and the day. Every other line is a request with its answer. A request is found by
the digest of everything that the model would see; ids, times and addresses of the run are no part of it, and neither
are keys of the endpoint.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import lzma
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from difflib import SequenceMatcher
from importlib import metadata
from pathlib import Path

from vmemo.errors import InvalidInput, LLMDenied
from vmemo.models.results import Usage
from vmemo.ports import LLM, Completion, LLMRequest
from vmemo.providers import count_tokens
from vmemo_bench.checkpoint import Checkpoint
from vmemo_bench.environment import make_folder, prompt_versions
from vmemo_bench.json_files import FileRecord, parse_record, read_texts

SUFFIXES = (".jsonl", ".jsonl.xz")
_SHOWN = 160
"""Characters of a prompt's line that an error quotes."""


class CassetteHeader(FileRecord):
    """The first line of a cassette."""

    cassette: int = 1
    vmemo: str
    prompts: Mapping[str, int]
    recorded: str


class RecordedAnswer(FileRecord):
    """A request with its answer; system message and schema are named by digest, because they are in the program."""

    key: str
    step: str
    model: str
    system: str
    schema_digest: str
    user: str
    answer: str
    usage: Usage

    def completion(self) -> Completion:
        """Return the answer as the model gave it."""
        return Completion(text=self.answer, usage=self.usage)


def request_key(request: LLMRequest) -> str:
    """Return the digest of what a model sees of a request."""
    return _digest(json.dumps([request.step, request.system, request.user, dict(request.schema)], sort_keys=True))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:24]


def _schema_digest(request: LLMRequest) -> str:
    return _digest(json.dumps(dict(request.schema), sort_keys=True))


class Cassette:
    """Recorded answers by request. `path` is a file, or for replays a folder of cassettes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        files = sorted(each for each in path.iterdir() if _is_cassette(each)) if path.is_dir() else [path]
        self.header: CassetteHeader | None = None
        self._answers: dict[str, RecordedAnswer] = {}
        for file in files:
            self._read(file)

    def _read(self, file: Path) -> None:
        if not file.exists():
            return
        (place, first), *lines = [*read_texts(file)] or [(str(file), "")]
        header = parse_record(first, CassetteHeader, place)
        answers = [parse_record(line, RecordedAnswer, place) for place, line in lines]
        self.header = self.header or header
        self._answers |= {answer.key: answer for answer in answers}

    @property
    def answers(self) -> Mapping[str, RecordedAnswer]:
        return self._answers

    def model(self) -> str:
        """Return the name of the recorded model. Raise InvalidInput if nothing is recorded."""
        names = [answer.model for answer in self._answers.values()]
        if not names:
            raise InvalidInput(f"{self._path} contains no recorded answers: record a run with --record first.")
        return max(set(names), key=names.count)

    def write(self, answers: Iterable[RecordedAnswer]) -> None:
        """Write the header and all answers, with further ones, to the file."""
        self._answers |= {answer.key: answer for answer in answers}
        header = CassetteHeader(
            vmemo=metadata.version("vmemo"), prompts=prompt_versions(), recorded=f"{datetime.now(UTC):%Y-%m-%d}"
        )
        lines = [header.model_dump_json(), *(answer.model_dump_json() for answer in self._answers.values()), ""]
        content = "\n".join(lines).encode()
        make_folder(self._path.parent)
        temporary = self._path.with_name(f"{self._path.name}.tmp")
        temporary.write_bytes(lzma.compress(content, preset=9) if self._path.suffix == ".xz" else content)
        temporary.replace(self._path)

    def describe_miss(self, request: LLMRequest) -> str:
        """Return which part of a request differs from the most similar recorded one."""
        same_step = [answer for answer in self._answers.values() if answer.step == request.step]
        start = f"{self._path} has no answer to a request of the step {request.step!r}"
        if not same_step:
            return f"{start}, and none of this step: record it with --record."
        recorded = self.header.prompts.get(request.step) if self.header else None
        if all(answer.system != _digest(request.system) for answer in same_step):
            current = prompt_versions().get(request.step)
            return f"{start}: the prompt's system message differs (recorded with version {recorded}, now {current})."
        if all(answer.schema_digest != _schema_digest(request) for answer in same_step):
            return f"{start}: the schema of the answer differs."
        return f"{start}: {_difference(request.user, [answer.user for answer in same_step])}"


def _difference(text: str, recorded: Iterable[str]) -> str:
    """Describe the first line that the most similar recorded text does not have."""
    lines = text.split("\n")
    shared = {known: len(set(lines) & set(known.split("\n"))) for known in recorded}
    nearest = max(shared, key=lambda known: shared[known]).split("\n")
    for tag, one, _, other, _ in SequenceMatcher(None, lines, nearest, autojunk=False).get_opcodes():
        if tag != "equal":
            now = lines[one][:_SHOWN] if one < len(lines) else "(end)"
            then = nearest[other][:_SHOWN] if other < len(nearest) else "(end)"
            # The marks of quoted text depend on all of it and say nothing.
            if not now.startswith("<<"):
                return f"its line {one + 1} is {now!r}, and in the most similar recorded request {then!r}."
    return "the texts differ in their marks only."


def _is_cassette(path: Path) -> bool:
    return path.name.endswith(SUFFIXES)


class RecordingLLM:
    """Asks a model only what the cassette does not contain, and writes each answer to disk at once.

    Answers are appended to a plain file beside the cassette, which `close` merges into it. An interrupted recording
    leaves that file, and the next one continues from it.
    """

    def __init__(self, llm: LLM, cassette: Cassette, journal: Checkpoint[RecordedAnswer]) -> None:
        self._llm = llm
        self._cassette = cassette
        self._journal = journal
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @property
    def name(self) -> str:
        return self._llm.name

    async def complete(self, request: LLMRequest) -> Completion:
        """Return the recorded answer, or ask the model and record its answer; equal requests share one call."""
        key = request_key(request)
        async with self._locks[key]:
            answer = self._cassette.answers.get(key) or self._journal.get(key)
            if answer is None:
                answer = self._journal.append(self._recorded(key, request, await self._llm.complete(request)))
        return answer.completion()

    def _recorded(self, key: str, request: LLMRequest, completion: Completion) -> RecordedAnswer:
        usage = completion.usage
        if not usage.input_tokens:
            tokens = count_tokens(request.system) + count_tokens(request.user)
            usage = usage.model_copy(
                update={"calls": 1, "input_tokens": tokens, "output_tokens": count_tokens(completion.text)}
            )
        return RecordedAnswer(
            key=key,
            step=request.step,
            # A local endpoint is named after its address.
            model=self._llm.name.rpartition("#")[2],
            system=_digest(request.system),
            schema_digest=_schema_digest(request),
            user=request.user,
            answer=completion.text,
            usage=usage,
        )


class ReplayLLM:
    """Answers from a cassette."""

    def __init__(self, cassette: Cassette) -> None:
        self._cassette = cassette
        self._name = cassette.model()

    @property
    def name(self) -> str:
        return self._name

    async def complete(self, request: LLMRequest) -> Completion:
        """Return the recorded answer. Raise LLMDenied that names the difference if there is none."""
        answer = self._cassette.answers.get(request_key(request))
        if answer is None:
            raise LLMDenied(self._cassette.describe_miss(request))
        # A model takes time, and other tasks run meanwhile.
        await asyncio.sleep(0)
        return answer.completion()
