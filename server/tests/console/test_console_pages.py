"""The pages of the console show what the API returns."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest
from pydantic import JsonValue

from console_client import BANK, ConsoleClient
from live_server import LiveServer, live_server
from vmemo import Memory, Message
from vmemo.models import BankId, FactId
from vmemo.models.changes import Changes
from vmemo.models.results import Answer, Citation, Spending
from vmemo.models.select import FactSelect
from vmemo.sync import portal
from vmemo_conformance.samples import a_fact, an_entity, day, mention_of, with_vector
from vmemo_server.app import ServerOptions
from vmemo_server.console.pages.entities import MAX_NODES
from vmemo_server.console.pages.recall import answer_parts
from vmemo_server.console.route import POLICY, ConsoleRoute


def plain(page: str) -> str:
    """Return the text of a page."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page)))


def test_overview_shows_the_counts_of_the_bank(reader: ConsoleClient, memory: Memory) -> None:
    status, page = portal.run(memory.status()), plain(reader.get())
    for label, count in [("Facts", status.facts), ("Entities", status.entities), ("Messages", status.messages)]:
        assert f"{label} {count}" in page
    assert "All messages are processed" in page
    assert "No language model has been called" in page
    spent = Spending(step="extract", model="gpt", calls=3, failures=1, input_tokens=1200, output_tokens=34, cost=0.5)
    portal.run(memory.store.commit(Changes(bank=BankId(BANK), spending=[spent])))
    assert "extract gpt 3 1 1,200 34 $0.5000 Total 3 1,200 34 $0.5000" in plain(reader.get())
    growth = portal.run(memory.store.daily_counts(memory.name))
    assert sum(day.facts for day in growth) == status.facts
    assert sum(day.messages for day in growth) == status.messages


def test_overview_shows_what_the_memory_holds(reader: ConsoleClient, memory: Memory) -> None:
    page, facts = unescape(reader.get()), portal.run(memory.facts(limit=1000))
    current = [fact for fact in facts if fact.network == "world" and not fact.expired_at]
    newest = max(current, key=lambda fact: fact.mentioned_at)
    assert f"/facts/{newest.id}" in page.split("Latest facts")[1].split("</section>")[0]
    changed = page.split("What changed")[1].split("</section>")[0]
    closed = [fact for fact in facts if fact.expired_at]
    replaced = [fact for fact in facts if fact.supersedes]
    assert closed
    assert replaced
    for fact in (*closed, *replaced):
        assert f"/facts/{fact.id}" in changed
    standing = page.split("Standing instructions")[1].split("</section>")[0]
    assert all(f"/facts/{fact.id}" in standing for fact in facts if fact.instruction and not fact.expired_at)
    people = page.split("People</h2>")[1].split("Also mentioned")
    for entity in portal.run(memory.entities(limit=1000)):
        assert f"/entities/{entity.id}" in people[entity.type != "PERSON"]


def test_banks_list_those_that_the_key_may_read(sample: LiveServer, reader: ConsoleClient) -> None:
    assert f'href="/console/banks/{BANK}"' in reader.http.get("/console").text
    assert "24 messages" in reader.get("/summary")
    assert "No bank has such a name" in reader.http.get("/console?q=zzz", headers={"HX-Request": "true"}).text


def test_facts_are_listed_newest_first_with_filters(reader: ConsoleClient, memory: Memory) -> None:
    def shown(**filters: str) -> list[str]:
        return re.findall(r'class="fact-link" href="[^"]*/facts/([^"]+)"', reader.get("/facts", **filters))

    facts = portal.run(memory.facts(limit=1000))
    by_time = sorted(facts, key=lambda fact: fact.mentioned_at, reverse=True)
    listed = shown()
    assert sorted(listed) == sorted(fact.id for fact in facts)
    times = {fact.id: fact.mentioned_at for fact in facts}
    assert [times[FactId(id)] for id in listed] == [fact.mentioned_at for fact in by_time]
    closed = {fact.id for fact in facts if fact.expired_at is not None}
    assert closed
    assert set(shown(state="closed")) == closed
    assert not closed & set(shown(state="current"))
    assert set(shown(network="opinion")) == {fact.id for fact in facts if fact.network == "opinion"}
    about = {fact.id for fact in facts if any(mention.name == "Biscuit" for mention in fact.entities)}
    assert set(shown(entity="biscuit")) == about
    assert set(shown(until="2024-03-01")) == {fact.id for fact in facts if fact.mentioned_at.isoformat() < "2024-03"}
    assert "No facts here" in reader.get("/facts", entity="nobody")


def test_facts_and_messages_are_searched_by_their_words(reader: ConsoleClient, memory: Memory) -> None:
    def shown(page: str, **filters: str) -> list[str]:
        return re.findall(rf'class="fact-link" href="[^"]*{page}/([^"]+)"', reader.get(page, **filters))

    facts, messages = portal.run(memory.facts(limit=1000)), portal.run(memory.messages(limit=1000))
    for q in ("biscuit", "BISCUIT stairs", "half  marathon", "100%", "\x00", "zzzz"):
        words = q.replace("\x00", "").casefold().split()
        assert set(shown("/facts", q=q)) == {f.id for f in facts if all(word in f.text.casefold() for word in words)}
        stated = [m.id for m in messages if all(word in m.content.casefold() for word in words)]
        assert shown("/messages", q=q) == stated[::-1], q
    current = set(shown("/facts", q="maya", state="current"))
    assert current < set(shown("/facts", q="maya"))
    assert "<mark>Biscuit</mark>" in reader.get("/messages", q="biscuit")
    assert "Change the filters" in reader.get("/messages", q="zzzz")
    for name, value in (("q", "x" * 201), ("until", "soon"), ("until", "2024-01-31T09:30"), ("until", "9" * 40)):
        refused = reader.http.get(reader.path("/facts"), params={name: value})
        assert (refused.status_code, f"invalid value: {name}." in refused.text) == (422, True)
    assert shown("/facts", until="") == shown("/facts")
    assert shown("/facts", until="1999-12-31") == []


def test_search_shows_the_part_of_a_long_text_that_has_the_word(sample: LiveServer, reader: ConsoleClient) -> None:
    memory = sample.memory.bank("searched")
    texts = [Message(content=f"{'tea ' * 200}<b>needle</b> {n}", speaker="Ana") for n in range(60)]
    portal.run(memory.retain(texts, infer=False))
    found = ConsoleClient(reader.http, "searched")
    first = found.get("/messages", q="NEEDLE")
    assert first.count("&lt;b&gt;<mark>needle</mark>&lt;/b&gt;") == 50
    more = unescape(re.findall(r'href="([^"]+)"[^>]*>Earlier messages', first)[0])
    assert reader.http.get(more, headers={"HX-Request": "true"}).text.count("<mark>needle</mark>") == 10


def test_pages_of_facts_continue_where_the_last_one_ended(memory: Memory) -> None:
    every = portal.run(memory.store.facts(memory.name, FactSelect(newest_first=True)))
    paged: list[FactId] = []
    while True:
        after = paged[-1] if paged else None
        page = portal.run(memory.store.facts(memory.name, FactSelect(newest_first=True, after=after, limit=4)))
        if not page:
            break
        paged += [fact.id for fact in page]
    assert paged == [fact.id for fact in every]


def test_fact_shows_versions_successor_and_the_message_that_states_it(reader: ConsoleClient, memory: Memory) -> None:
    fact = next(each for each in portal.run(memory.facts(limit=1000)) if each.expired_at and each.messages)
    page, why = reader.get(f"/facts/{fact.id}"), portal.run(memory.why(fact.id))
    assert fact.text in unescape(page)
    assert "Replaced by" in page
    for other in (*why.superseded_by, *portal.run(memory.history(fact.id))):
        assert other.id in page or other.id == fact.id
    for message in why.messages:
        assert message.content in unescape(page)
        stated = reader.get(f"/messages/{message.id}")
        assert f"/facts/{fact.id}" in stated
    for episode in why.episodes:
        assert f"/messages/{fact.messages[0]}" in reader.get(f"/episodes/{episode.id}")
    assert reader.http.get(reader.path("/facts/none")).status_code == 404


def test_entities_and_graph_show_every_entity(reader: ConsoleClient, memory: Memory) -> None:
    entities = portal.run(memory.entities(limit=1000))
    listed = re.findall(r'href="[^"]*/entities/([^"]+)"', reader.get("/entities"))
    assert set(listed) == {entity.id for entity in entities}
    mentions = {entity.id: entity.mentions for entity in entities}
    assert [mentions[id] for id in listed] == sorted(mentions.values(), reverse=True)
    assert "Biscuit" in reader.fragment("/entities?q=ISCU").text
    data = json.loads(reader.get("/graph/data"))
    assert {node["id"] for node in data["nodes"] if node["type"] == "entity"} <= mentions.keys()
    assert data["shown"] == data["total"] == len(data["nodes"]) <= MAX_NODES
    maya = next(entity for entity in entities if entity.name == "Maya")
    near = json.loads(reader.get("/graph/data", focus=maya.id))
    facts = [node for node in near["nodes"] if node["type"] == "fact"]
    assert len(facts) == maya.mentions
    assert "around <bdi>Maya" in reader.get("/graph", focus=maya.id)
    assert "Maya" in reader.get(f"/entities/{maya.id}")
    relation: JsonValue = {"subject": "Priya", "verb": "manages", "object": "Maya"}
    line = Message(content="Priya has managed Maya since the spring.", speaker="Maya", metadata={"relation": relation})
    portal.run(memory.retain([line]))
    assert "Relations Priya manages Maya" in plain(reader.get(f"/entities/{maya.id}"))


def test_opinion_shows_every_change_with_its_evidence(reader: ConsoleClient, memory: Memory) -> None:
    opinions = portal.run(memory.opinions())
    listed = reader.get("/opinions")
    assert opinions
    for opinion in opinions:
        assert f"/opinions/{opinion.id}" in listed
        page = reader.get(f"/opinions/{opinion.id}")
        for change in portal.run(memory.trajectory(opinion.id)):
            assert f"{change.before:.2f} → <strong>{change.after:.2f}</strong>" in page
            assert all(f"/facts/{id}" in page for id in change.evidence)
    observed = unescape(reader.get("/observations"))
    assert all(fact.text in observed for fact in portal.run(memory.observations()))


def test_messages_and_episodes_are_listed_last_first(reader: ConsoleClient, memory: Memory) -> None:
    stored = portal.run(memory.messages(limit=1000))
    assert re.findall(r'href="[^"]*/messages/([^"?]+)"', reader.get("/messages")) == [m.id for m in reversed(stored)]
    rest = reader.fragment(f"/messages?after={stored[1].id}").text
    assert re.findall(r'href="[^"]*/messages/([^"?]+)"', rest) == [stored[0].id]
    by_end = sorted(portal.run(memory.episodes(limit=1000)), key=lambda episode: episode.ended_at, reverse=True)
    assert re.findall(r'href="[^"]*/episodes/([^"?]+)"', reader.get("/episodes")) == [episode.id for episode in by_end]


def test_profile_shows_its_history(reader: ConsoleClient, memory: Memory) -> None:
    page, profile = unescape(reader.get("/profile")), portal.run(memory.profile())
    assert f'value="{profile.name}"' in page
    assert profile.background in page
    assert all(former.profile.background in page for former in portal.run(memory.former_profiles()))
    assert "disabled" in page


def test_recall_lab_has_the_order_of_an_explained_recall(reader: ConsoleClient, memory: Memory) -> None:
    page = reader.get("/recall", query="Where does Maya work?", max_tokens="200", at_time="2024-09-01")
    recalled = portal.run(memory.recall("Where does Maya work?", max_tokens=200, at_time="2024-09-01", explain=True))
    assert recalled.hits
    assert re.findall(r'<tr data-fact="([^"]+)"', page) == [hit.id for hit in recalled.hits]
    assert recalled.to_prompt() in unescape(page)
    assert page.index('class="prompt') < page.index('id="analysis"') < page.index('id="hits"')
    assert recalled.explanation is not None
    returned = {hit.id for hit in recalled.hits}
    assert {each.id for ranking in recalled.explanation.rankings.values() for each in ranking} - returned
    for channel in ("semantic", "keyword", "graph"):
        column = page.split(f'data-channel="{channel}"')[1].split("</div>")[0]
        ranking = recalled.explanation.rankings[channel]
        shown = re.findall(r'<li value="(\d+)" data-candidate="([^"]+)"( class="not-returned")?', column)
        assert [(int(rank), id) for rank, id, _ in shown] == [(each.rank, each.id) for each in ranking]
        assert {id for _, id, muted in shown if not muted} == {each.id for each in ranking} & returned
        assert all(f"/facts/{each.id}" in column for each in ranking)
        assert "no longer stored" not in column
    assert all(f"<dt>{stage}</dt>" in page for stage in recalled.timings)
    refused = reader.http.get(reader.path("/recall"), params={"query": "x", "max_tokens": "many"})
    assert (refused.status_code, "whole number" in refused.text) == (422, True)


def test_chat_streams_an_answer_whose_citations_link_to_facts(reader: ConsoleClient) -> None:
    data = {"query": "What food does Maya avoid?", "csrf_token": reader.token}
    streamed = reader.http.post(reader.path("/chat"), data=data, headers={"Accept": "text/event-stream"})
    assert "event: answer" in streamed.text
    assert 'class="cite"' in streamed.text
    without_scripts = reader.http.post(reader.path("/chat"), data=data)
    assert 'class="cite"' in without_scripts.text
    cited = re.findall(r'class="cite" href="([^"]+)"', without_scripts.text)
    assert reader.http.get(f"{cited[0]}/card").status_code == 200


def test_answer_is_split_at_its_citations() -> None:
    one = Citation(fact=FactId("f1"), text="One", mentioned_at="2024-01-01T00:00:00Z")  # pyright: ignore[reportArgumentType]
    parts = answer_parts(Answer(query="?", text="It is so [f1], and [f2].", citations=(one,)))
    assert [(part.text, part.number) for part in parts] == [("It is so", 0), ("", 1), (", and [f2].", 0)]


def test_keys_and_audit_log_are_for_admins(admin: ConsoleClient, writer: ConsoleClient, sample: LiveServer) -> None:
    for page in ("/console/keys", "/console/audit"):
        assert writer.http.get(page).status_code == 403
    token = {"csrf_token": admin.token}
    created = admin.http.post("/console/keys", data={**token, "name": "robot", "banks": "a, b-*", "permission": "read"})
    secret = created.text.split('id="secret">')[1].split("<")[0]
    key = portal.run(sample.auth.find_key(secret))
    assert key is not None
    assert (key.banks, key.permission) == (("a", "b-*"), "read")
    assert secret not in admin.http.get("/console/keys").text
    assert admin.http.post(f"/console/keys/{key.id}/revoke", data=token).status_code == 303
    assert portal.run(sample.auth.find_key(secret)) is None
    log = admin.http.get("/console/audit").text
    assert "POST /console/keys/{key}/revoke" in unescape(log)
    assert "console" in log


def test_reports_are_those_of_the_folder(sqlite_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "run.json").write_text('{"metrics": {"recall": 0.91}, "name": "<b>"}')
    (folder / "run.html").write_text("<script>1</script>")
    (tmp_path / "secret.json").write_text("{}")
    options = ServerOptions(reports=folder)
    with live_server(sqlite_url, options=options) as server, server.http() as client:
        listed = client.get("/console/reports").text
        assert "run.json" in listed
        assert "run.html" in listed
        shown = client.get("/console/reports/run.json").text
        assert "metrics.recall" in shown
        assert "0.91" in shown
        assert "<b>" not in shown
        html = client.get("/console/reports/run.html")
        assert html.headers["content-security-policy"].startswith("sandbox allow-scripts;")
        assert "allow-same-origin" not in html.headers["content-security-policy"]
        assert client.get("/console/reports/..%2Fsecret.json").status_code == 404
    with live_server(sqlite_url) as server, server.http() as client:
        assert "vmemo benchmark sample" in client.get("/console/reports").text


def test_large_bank_is_listed_in_pages_and_its_graph_is_a_sample(sample: LiveServer, reader: ConsoleClient) -> None:
    memory, people = sample.memory.bank("large"), [an_entity(f"Person {number}") for number in range(60)]

    async def store() -> None:
        await memory.open()
        facts = [
            a_fact(f"Thing {n}", bank="large", mentioned_at=day(n), entities=[mention_of(people[n % 60])])
            for n in range(MAX_NODES + 100)
        ]
        changes = Changes(bank=BankId("large"), entities=people, facts=[with_vector(fact) for fact in facts])
        assert await memory.store.commit(changes)

    portal.run(store())
    large = ConsoleClient(reader.http, "large")
    first = large.get("/facts")
    assert first.count("fact-link") == 50
    more = unescape(re.findall(r'href="([^"]+)"[^>]*>Earlier facts', first)[0])
    second = reader.http.get(more, headers={"HX-Request": "true"}).text
    assert second.count("fact-link") == 50
    assert not set(re.findall(r"Thing \d+", first)) & set(re.findall(r"Thing \d+", second))
    listed, rest = large.get("/entities"), large.fragment("/entities?skip=50").text
    assert (listed.count('<th scope="row">'), rest.count('<th scope="row">')) == (50, 10)
    data = json.loads(large.get("/graph/data"))
    assert data["shown"] == len(data["nodes"]) == MAX_NODES
    assert data["total"] == MAX_NODES + 100 + len(people)


def test_unexpected_error_is_a_page_with_the_request_id(sqlite_url: str) -> None:
    def broken(bank: str) -> None:
        raise RuntimeError("Ana keeps her keys under the mat")

    asked = {"X-Request-Id": "mine-1"}
    with live_server(sqlite_url) as server, server.http() as client:
        server.app.router.routes.insert(0, ConsoleRoute("/console/banks/{bank}/broken", broken))
        page = client.get("/console/banks/a/broken", headers=asked)
        part = client.get("/console/banks/a/broken", headers={**asked, "HX-Request": "true"})
    for response in (page, part):
        assert (response.status_code, "mat" in response.text) == (500, False)
        assert "Try again" in response.text
        assert "<code>mine-1</code>" in response.text
        assert response.headers["content-security-policy"] == POLICY
    assert "All banks" in page.text
    assert "<html" not in part.text


@pytest.mark.parametrize("page", ["/nothing", "/banks/none", "/banks/demo/nothing"])
def test_missing_page_is_a_page(reader: ConsoleClient, page: str) -> None:
    response = reader.http.get(f"/console{page}")
    assert response.status_code == 404
    assert "All banks" in response.text
