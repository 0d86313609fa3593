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
from vmemo_conformance.batches import WritingConformance
from vmemo_conformance.entity_merges import IdentityConformance
from vmemo_conformance.entity_names import NamingConformance
from vmemo_conformance.filters import FilterConformance
from vmemo_conformance.forget import ForgettingConformance
from vmemo_conformance.forget_cleanup import RemnantConformance
from vmemo_conformance.forget_reopens import ReopeningConformance
from vmemo_conformance.formed_opinions import FormedConformance
from vmemo_conformance.graph import EdgeConformance
from vmemo_conformance.incoming_banks import HiddenBankConformance
from vmemo_conformance.isolation import IsolationConformance
from vmemo_conformance.jobs import WorkConformance
from vmemo_conformance.maintenance import HousekeepingConformance
from vmemo_conformance.messages import ArchiveConformance
from vmemo_conformance.profiles import ProfileConformance
from vmemo_conformance.queue import QueueConformance
from vmemo_conformance.reads import LibraryConformance
from vmemo_conformance.reprocess import ReprocessConformance
from vmemo_conformance.revision import RevisionConformance
from vmemo_conformance.search import SearchConformance
from vmemo_conformance.temporal_search import DuringConformance
from vmemo_conformance.time_travel import TimeTravelConformance
from vmemo_conformance.token_vectors import TokenVectorConformance
from vmemo_conformance.two_stores import SharingConformance

__all__ = ["StoreConformance"]


class StoreConformance(
    ArchiveConformance,
    WritingConformance,
    LibraryConformance,
    SearchConformance,
    NamingConformance,
    EdgeConformance,
    DuringConformance,
    TokenVectorConformance,
    FilterConformance,
    TimeTravelConformance,
    IsolationConformance,
    ForgettingConformance,
    RemnantConformance,
    ReopeningConformance,
    RevisionConformance,
    IdentityConformance,
    BankConformance,
    ProfileConformance,
    SharingConformance,
    QueueConformance,
    WorkConformance,
    ReprocessConformance,
    FormedConformance,
    HiddenBankConformance,
    HousekeepingConformance,
):
    """All tests of the port; see the module's text for how to run them on a store of your own."""
