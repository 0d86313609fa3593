"""The promises of the Store port as tests, for any store.

Subclass `StoreConformance` in a test module of your own; pytest collects the rest:

```python
import pytest

pytest.register_assert_rewrite("vmemo.testing.conformance")  # in conftest.py: failures then show their values


class TestMyStore(StoreConformance):
    def make_store(self, folder: Path) -> Store:
        return MyStore(folder / "memory.db")
```

`make_store` is handed a folder of its own for each test. Two stores made for one folder must share their memories
(a server's store may use the folder's name as a database or schema); set `shared = False` where they can't.
"""

from vmemo.testing.conformance.archive import ArchiveConformance
from vmemo.testing.conformance.arrivals import ArrivalConformance
from vmemo.testing.conformance.banks import BankConformance
from vmemo.testing.conformance.during import DuringConformance
from vmemo.testing.conformance.edges import EdgeConformance
from vmemo.testing.conformance.filters import FilterConformance
from vmemo.testing.conformance.forgetting import ForgettingConformance
from vmemo.testing.conformance.formed import FormedConformance
from vmemo.testing.conformance.housekeeping import HousekeepingConformance
from vmemo.testing.conformance.identities import IdentityConformance
from vmemo.testing.conformance.isolation import IsolationConformance
from vmemo.testing.conformance.library import LibraryConformance
from vmemo.testing.conformance.naming import NamingConformance
from vmemo.testing.conformance.profiles import ProfileConformance
from vmemo.testing.conformance.queueing import QueueConformance
from vmemo.testing.conformance.remnants import RemnantConformance
from vmemo.testing.conformance.reopening import ReopeningConformance
from vmemo.testing.conformance.revising import RevisionConformance
from vmemo.testing.conformance.searching import SearchConformance
from vmemo.testing.conformance.shadows import ShadowConformance
from vmemo.testing.conformance.sharing import SharingConformance
from vmemo.testing.conformance.time_travel import TimeTravelConformance
from vmemo.testing.conformance.token_vectors import TokenVectorConformance
from vmemo.testing.conformance.working import WorkConformance
from vmemo.testing.conformance.writing import WritingConformance

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
    ShadowConformance,
    FormedConformance,
    ArrivalConformance,
    HousekeepingConformance,
):
    """All tests of the port; see the module's text for how to run them on a store of your own."""
