"""Benchmarks for vmemo: retrieval, answers, speed, ablation, cost of retain, and load.

```python
options = BenchOptions(benchmark="locomo", data=Path("data"))
report = await run_benchmark(options)
write_report(report, json=Path("locomo.json"), html=Path("locomo.html"))
```

- `BenchOptions` describes one run; `SpeedOptions`, `QaOptions` and `LoadOptions` are the options of single benchmarks.
- `run_benchmark` returns a `Report`. An interrupted run resumes when it is started again; a finished run leaves only
  cached embeddings, and in QA mode the answers and verdicts that were paid for.
- A `ProgressSink` is called with a `Progress` after each step; `silent` ignores it.
- `dump_prompts` writes the prompts of QA mode for other systems; `QaOptions(answers=FILE)` scores their answers.
- `export_texts` and `import_vectors` let another machine compute the vectors.

Invalid options, missing files and files in another format raise `InvalidInput`.
"""

from __future__ import annotations

from vmemo_bench.options import (
    BenchmarkName,
    BenchOptions,
    DatasetName,
    EngineName,
    LoadOptions,
    Mode,
    QaOptions,
    ScaleOptions,
    SpeedOptions,
)
from vmemo_bench.progress import Progress, ProgressSink, silent
from vmemo_bench.qa.prompt_export import dump_prompts
from vmemo_bench.report import Report
from vmemo_bench.run import run_benchmark, write_report
from vmemo_bench.vector_exchange import export_texts, import_vectors

__all__ = [
    "BenchOptions",
    "BenchmarkName",
    "DatasetName",
    "EngineName",
    "LoadOptions",
    "Mode",
    "Progress",
    "ProgressSink",
    "QaOptions",
    "Report",
    "ScaleOptions",
    "SpeedOptions",
    "dump_prompts",
    "export_texts",
    "import_vectors",
    "run_benchmark",
    "silent",
    "write_report",
]
