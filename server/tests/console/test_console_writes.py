"""Changes through the console, and the permissions that they need."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from console_client import BANK, ConsoleClient, signed_in
from live_server import LiveServer
from vmemo import Memory
from vmemo.sync import portal
from vmemo_server.console import router
from vmemo_server.console.route import ConsoleRoute

OPEN = {"/console/sign-in", "/console/sign-out", "/console/banks/{bank}/chat"}
"""Forms that change nothing."""


def form_paths() -> list[str]:
    """Return the paths of all forms of the console that change something."""
    routes = [route for route in router.routes if isinstance(route, ConsoleRoute)]
    found = {route.path for route in routes if "POST" in (route.methods or ())}
    return sorted(path for path in found if path not in OPEN)


def exported(memory: Memory, path: Path) -> bytes:
    """Return everything that the bank holds; the counts of recalls are left out."""
    portal.run(memory.export(path))
    return re.sub(rb'"access_count":\d+', b"", path.read_bytes())


def test_read_only_key_cannot_write_by_any_request(
    reader: ConsoleClient, memory: Memory, sample: LiveServer, tmp_path: Path
) -> None:
    paths = form_paths()
    assert len(paths) >= 12
    before, audited = exported(memory, tmp_path / "before"), portal.run(sample.auth.audit_entries())
    fact = portal.run(memory.facts(limit=1))[0]
    fields = {"text": "x", "name": BANK, "pinned": "true", "keep": "Maya", "absorb": "Tom", "entity": "Maya"}
    for path in paths:
        url = re.sub(r"\{(\w+)\}", lambda found: BANK if found[1] == "bank" else fact.id, path)
        for headers in ({}, {"X-CSRF-Token": reader.token}, {"HX-Request": "true"}):
            data = {**fields, "csrf_token": reader.token}
            response = reader.http.post(url, data=data, headers=headers)
            assert response.status_code == 403, path
    for page in ("/forget", f"/facts/{fact.id}/delete"):
        assert reader.http.get(reader.path(page)).status_code == 403
    assert exported(memory, tmp_path / "after") == before
    assert portal.run(sample.auth.audit_entries()) == audited


@pytest.mark.parametrize(
    "page", ["", "/facts", "/entities", "/opinions", "/observations", "/profile", "/messages", "/recall", "/episodes"]
)
def test_reader_sees_nothing_that_writes(reader: ConsoleClient, page: str) -> None:
    actions = re.findall(r'<form[^>]*method="post"[^>]*action="([^"]+)"', reader.get(page))
    assert [action for action in actions if action != "/console/sign-out"] in ([], [reader.path("/profile")])
    assert "hx-post" not in reader.get(page)
    assert "Forget</a>" not in reader.get(page)


def test_key_of_another_bank_sees_nothing_of_this_one(sample: LiveServer) -> None:
    with signed_in(sample, "admin", "other") as stranger:
        assert BANK not in stranger.http.get("/console").text
        for page in ("", "/facts", "/graph/data", "/recall?query=Maya", "/summary", "/queue"):
            response = stranger.http.get(stranger.path(page))
            assert response.status_code == 403
            assert "Maya" not in response.text
        assert stranger.submit("/chat", query="Maya").status_code == 403


def test_fact_is_edited_pinned_and_deleted(writer: ConsoleClient, memory: Memory) -> None:
    fact = next(
        each for each in portal.run(memory.facts(limit=1000)) if "sourdough" in each.text and not each.expired_at
    )
    values = {"text": "Assistant: A bread class.", "reason": "shorter", "valid_at": "2024-01-01"}
    edited = writer.submit(f"/facts/{fact.id}/edit", **values)
    assert "Saved as a new version" in edited.text
    assert "true since 2024-01-01" in edited.text
    versions = portal.run(memory.history(fact.id))
    assert [version.text for version in versions][-1] == "Assistant: A bread class."
    new = versions[-1]
    assert "pinned" in writer.submit(f"/facts/{new.id}/pin", pinned="true").text
    assert portal.run(memory.get(new.id)).pinned
    part = writer.http.post(
        writer.path(f"/facts/{new.id}/pin"),
        data={"pinned": "false"},
        headers={"HX-Request": "true", "X-CSRF-Token": writer.token},
    )
    assert part.text.strip().startswith("<form")
    assert not portal.run(memory.get(new.id)).pinned
    assert 'name="pinned"' not in writer.get(f"/facts/{fact.id}")
    refused = writer.submit(f"/facts/{fact.id}/pin", pinned="true")
    assert refused.status_code == 422
    assert new.short_id in refused.text
    assert "A bread class" in writer.get(f"/facts/{new.id}/delete")
    assert "Deleted for good" in writer.submit(f"/facts/{new.id}/delete").text
    for version in versions:
        assert writer.http.get(writer.path(f"/facts/{version.id}")).status_code == 404


def test_entities_are_merged_and_separated_again(writer: ConsoleClient, memory: Memory) -> None:
    merged = writer.submit("/merges", keep="Fernhill Robotics", absorb="Fernhill", reason="the same firm")
    assert "Merged" in merged.text
    merge = portal.run(memory.merges())[-1]
    assert f"/merges/{merge.id}/undo" in merged.text
    assert "Fernhill" in writer.get("/entities")
    assert "The merge is undone" in writer.submit(f"/merges/{merge.id}/undo").text
    names = {entity.name for entity in portal.run(memory.entities(limit=1000))}
    assert {"Fernhill", "Fernhill Robotics"} <= names


def test_profile_is_replaced(writer: ConsoleClient, memory: Memory) -> None:
    traits = {"skepticism": "4", "literalism": "1", "empathy": "2", "bias": "0.25"}
    assert "Saved." in writer.submit("/profile", name="Nova", background="I plan.\r\nCalmly.", **traits).text
    profile = portal.run(memory.profile())
    assert (profile.name, profile.disposition.skepticism, profile.bias) == ("Nova", 4, 0.25)
    assert profile.background == "I plan.\nCalmly."
    refused = writer.submit("/profile", name="Nova", **{**traits, "empathy": "9"})
    assert refused.status_code == 422
    needs_model = writer.submit("/profile/background", snippet="You grew up in Colorado.")
    assert needs_model.status_code >= 400


def test_forgetting_deletes_what_the_preview_names(writer: ConsoleClient, memory: Memory) -> None:
    assert "Forget everything about" in writer.get("/forget", entity="Priya")
    preview = writer.fragment("/forget?entity=Priya").text
    messages = int(re.findall(r"<dt>messages</dt><dd>(\d+)", preview)[0])
    assert "Priya" in preview
    before = portal.run(memory.status()).messages
    assert "Deleted for good" in writer.submit("/forget", entity="Priya").text
    assert before - portal.run(memory.status()).messages == messages
    assert "Priya" not in writer.get("/facts")
    assert writer.fragment("/forget?entity=Priya").status_code == 404
    first = portal.run(memory.messages(limit=1))[0]
    assert "1 message" in writer.get("/forget", message=first.id)


def test_jobs_run_and_the_queue_is_shown(writer: ConsoleClient) -> None:
    assert "Maintenance has run" in writer.submit("/maintain").text
    assert "processed" in writer.submit("/process").text
    assert "The worker runs" in writer.fragment("/queue").text


def test_bank_is_deleted_by_an_admin_who_types_its_name(admin: ConsoleClient, sample: LiveServer) -> None:
    token = {"csrf_token": admin.token}
    assert admin.http.post("/console/banks", data={**token, "name": "spare"}).status_code == 303
    spare = "/console/banks/spare/forget/bank"
    assert admin.http.post(spare, data={**token, "name": "other"}).status_code == 422
    with signed_in(sample, "write") as writer:
        assert writer.http.post(spare, data={"name": "spare", "csrf_token": writer.token}).status_code == 403
    assert admin.http.post(spare, data={**token, "name": "spare"}).status_code == 303
    assert "spare" not in portal.run(sample.memory.banks())
