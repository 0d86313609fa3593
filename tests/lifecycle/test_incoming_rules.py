"""Loading exported records: pages and their changes, without a database."""

from __future__ import annotations

from vmemo.models import BankId, FactId, Link, Merge
from vmemo.models.changes import MergeRecord, NoteChange, RestoreRecord
from vmemo.models.results import Spending
from vmemo.ports import HiddenBank
from vmemo.transfer.incoming import IncomingBank, hidden_name, page_changes, pages
from vmemo_conformance.samples import BANK, a_bank, a_fact, a_message, an_entity, an_episode, day, with_vector


def a_merge(number: int) -> MergeRecord:
    merge = Merge(id=str(number), entity=an_entity("Ann").id, names=("Annie",), reason="", at=day(1))
    return MergeRecord.of(merge.model_dump())


def test_a_page_becomes_one_commit_that_expects_the_page_before_it() -> None:
    said, ann = a_message("tulips"), an_entity("Ann")
    fact = with_vector(a_fact("tulips", messages=[said.id]))
    link = Link(source=fact.fact.id, target=fact.fact.id, kind="semantic", weight=1)
    spent, episode, merge = Spending(step="extract", model="m"), an_episode("tulips", [said]), a_merge(1)
    progress = NoteChange(note="7", expected="0")
    changes = page_changes(BANK, [said, ann, episode, fact, link, merge, spent], progress)
    assert (changes.bank, changes.note, changes.revision) == (BANK, progress, None)
    assert (changes.messages, changes.entities, changes.episodes) == ([said], [ann], [episode])
    assert (changes.facts, changes.links, changes.merges, changes.spending) == ([fact], [link], [merge], [spent])


def test_records_are_paged_and_all_merges_share_a_page() -> None:
    said = [a_message(str(n)) for n in range(3)]
    merges = [a_merge(n) for n in range(4)]
    records: list[RestoreRecord] = [*said, *merges, Spending(step="extract", model="m")]
    assert [len(page) for page in pages(records, 2)] == [2, 5, 1]
    assert [record for page in pages(records, 2) for record in page] == records
    assert list(pages([], 2)) == []


def test_a_page_takes_ten_times_as_many_links_as_other_records() -> None:
    said = [a_message(str(n)) for n in range(3)]
    links = [Link(source=FactId(str(n)), target=FactId("x"), kind="semantic", weight=1) for n in range(25)]
    records: list[RestoreRecord] = [*said, *links, Spending(step="extract", model="m")]
    assert [len(page) for page in pages(records, 2)] == [2, 20, 6, 1]
    assert [record for page in pages(records, 2) for record in page] == records


def test_progress_is_read_from_the_note_it_was_written_as() -> None:
    name = BankId("Ålice ⟨1⟩")
    incoming = IncomingBank(bank=name, hidden=hidden_name(name), records=5, digest="abc")
    hidden = HiddenBank(bank=a_bank(incoming.hidden), replaces=None, note=incoming.note)
    assert IncomingBank.of(hidden) == incoming
    assert len(hidden_name(BankId("n" * 10_000))) < 100
