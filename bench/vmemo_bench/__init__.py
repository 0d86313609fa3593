"""Benchmarks: how well memory finds what answers a question and how well it answers it (E1), how fast it is (E2), what
each of its parts is worth (E3), and what writing costs.

The surface that a command line needs:

- `BenchOptions(benchmark=NAME, ...)`, where NAME is one of `BENCHMARKS`: `locomo`, `longmemeval` and `ours` read a
  data folder (`data`, or one `file`), `sample` ships inside the package, `speed` makes its own texts, `ablation`
  runs over one of the datasets (`dataset`), `retain` replays LoCoMo's recordings to tell what writing costs, or
  with `drain` empties a long queue. `engine="recorded"` scores what an LLM wrote about LoCoMo.
  `limit` takes the first cases, `sample` a stratified part of longmemeval's questions. `budget` and
  `max_tokens` go to recall. `cache` keeps embeddings from run to run, `work` holds banks and finished cases.
  `speed=SpeedOptions(sizes=..., queries=..., budgets=..., banks=..., bulk=...)` shapes the speed benchmark.
- `load` presses a server, which it starts, with many clients: `load=LoadOptions(clients=..., seconds=...)`.
- `store` is what banks are made on: `sqlite`, `postgres` (a server from pip that is there for the run) or the URL of a
  PostgreSQL database, which must not hold banks of the same names and is left without those that were made.
- `mode="qa"` has the questions of a dataset answered and judged: `qa=QaOptions(answerer=MODEL, judge=MODEL, ...)`.
  `report.questions` holds each of them with its answer and the verdicts on it. Answers and verdicts stay in the work
  folder, so that what was paid for is not asked for twice. `await dump_prompts(options, folder)` writes what models
  elsewhere are to be asked, and `QaOptions(answers=FILE)` takes what they said.
- `await run_benchmark(options, progress)` returns a `Report`. An interrupted run goes on where it stopped when
  it is started again; a finished one leaves nothing behind but the embeddings.
- `progress` is called with `Progress(what, done, total)` after each step; `silent` shows nothing.
- `report.tables` holds what else was found, rows by title; `plain` shows one of their values.
- `write_report(report, json=PATH, html=PATH)` writes either form, or both.
- `await export_texts(options, file)` and `await import_vectors(options, file)` let vectors be computed elsewhere.

Whatever can't be used (a missing folder, a file of another form) is an `InvalidInput` that says what to pass.
"""

from __future__ import annotations

from vmemo_bench.exchange import export_texts, import_vectors
from vmemo_bench.options import (
    BENCHMARKS,
    BenchmarkName,
    BenchOptions,
    DatasetName,
    EngineName,
    LoadOptions,
    Mode,
    Progress,
    ProgressSink,
    QaOptions,
    SpeedOptions,
    silent,
)
from vmemo_bench.qa.prompt_export import dump_prompts
from vmemo_bench.report import Outcome, Report, plain
from vmemo_bench.run import run_benchmark, write_report

__all__ = [
    "BENCHMARKS",
    "BenchOptions",
    "BenchmarkName",
    "DatasetName",
    "EngineName",
    "LoadOptions",
    "Mode",
    "Outcome",
    "Progress",
    "ProgressSink",
    "QaOptions",
    "Report",
    "SpeedOptions",
    "dump_prompts",
    "export_texts",
    "import_vectors",
    "plain",
    "run_benchmark",
    "silent",
    "write_report",
]
