"""The promises of the Store port as tests, for any store.

Subclass `StoreConformance` in a test module of your own; pytest collects the rest:

```python
import pytest

pytest.register_assert_rewrite("vmemo_conformance")  # in conftest.py: failures then show their values


class TestMyStore(StoreConformance):
    def make_store(self, folder: Path) -> Store:
        return MyStore(folder / "memory.db")
```

`make_store` is handed a folder of its own for each test. Two stores made for one folder must share their memories
(a server's store may use the folder's name as a database or schema); set `shared = False` where they can't.
"""

from vmemo_conformance.banks import BankConformance
from vmemo_conformance.batches import BatchConformance
from vmemo_conformance.entity_merges import EntityMergeConformance
from vmemo_conformance.entity_names import EntityNameConformance
from vmemo_conformance.filters import FilterConformance
from vmemo_conformance.forget import ForgetConformance
from vmemo_conformance.forget_cleanup import ForgetCleanupConformance
from vmemo_conformance.forget_reopens import ForgetReopensConformance
from vmemo_conformance.formed_opinions import FormedOpinionConformance
from vmemo_conformance.graph import GraphConformance
from vmemo_conformance.incoming_banks import IncomingBankConformance
from vmemo_conformance.isolation import IsolationConformance
from vmemo_conformance.jobs import JobConformance
from vmemo_conformance.maintenance import MaintenanceConformance
from vmemo_conformance.messages import MessageConformance
from vmemo_conformance.profiles import ProfileConformance
from vmemo_conformance.queue import QueueConformance
from vmemo_conformance.reads import ReadConformance
from vmemo_conformance.reprocess import ReprocessConformance
from vmemo_conformance.revision import RevisionConformance
from vmemo_conformance.revision_links import RevisionLinkConformance
from vmemo_conformance.search import SearchConformance
from vmemo_conformance.temporal_search import TemporalSearchConformance
from vmemo_conformance.time_travel import TimeTravelConformance
from vmemo_conformance.token_vectors import TokenVectorConformance
from vmemo_conformance.two_stores import TwoStoreConformance
from vmemo_conformance.user_decisions import UserDecisionConformance

__all__ = ["StoreConformance"]


class StoreConformance(
    MessageConformance,
    BatchConformance,
    ReadConformance,
    SearchConformance,
    EntityNameConformance,
    GraphConformance,
    TemporalSearchConformance,
    TokenVectorConformance,
    FilterConformance,
    TimeTravelConformance,
    IsolationConformance,
    ForgetConformance,
    ForgetCleanupConformance,
    ForgetReopensConformance,
    RevisionConformance,
    RevisionLinkConformance,
    EntityMergeConformance,
    BankConformance,
    ProfileConformance,
    TwoStoreConformance,
    UserDecisionConformance,
    QueueConformance,
    JobConformance,
    ReprocessConformance,
    FormedOpinionConformance,
    IncomingBankConformance,
    MaintenanceConformance,
):
    """All tests of the port; see the module's text for how to run them on a store of your own."""
