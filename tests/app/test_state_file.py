"""A state file that can't be written or used is said: on the page, in the log, before a start."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import aiohttp
import pytest

from sidecar.app import Application, application
from sidecar.cli import main
from sidecar.config import load_bytes
from sidecar.simulator.server import SimulatedVllm
from sidecar.slo.store import StateStore, why_unwritable
from tests.app.test_application import QUICK, text, until

ERRORS = "inference_sidecar_state_write_errors_total"
SAVED = "inference_sidecar_state_saved_timestamp_seconds"


def test_it_is_counted_while_it_can_not_be_written_and_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(application, "SAVE_EVERY", 0.05)
    caplog.set_level(logging.INFO)
    taken = tmp_path / "state"
    taken.write_text("a file where the folder should be")

    async def story() -> None:
        async with SimulatedVllm() as server, aiohttp.ClientSession() as session:
            config = f"{QUICK}targets: [{{url: '{server.url}'}}]\nstate_file: {taken}/state.sqlite\n"
            app = Application(load_bytes(config.encode(), "test"))
            await app.start()

            async def failed() -> bool:
                page = await text(session, app.url + "/metrics")
                return any(
                    line.startswith(ERRORS) and float(line.split()[1]) > 2 for line in page.splitlines()
                )

            async def saved() -> bool:
                return f"\n{SAVED} " in await text(session, app.url + "/metrics")

            try:
                await until(failed)
                assert not await saved()
                taken.unlink()
                await until(saved)
            finally:
                await app.close()

    asyncio.run(story())
    told = [one.getMessage() for one in caplog.records if "in memory only" in one.getMessage()]
    assert len(told) == 1
    assert any("is written to" in one.getMessage() for one in caplog.records)


def test_without_a_state_file_nothing_is_said_of_one() -> None:
    async def story() -> None:
        async with aiohttp.ClientSession() as session:
            app = Application(
                load_bytes(f"{QUICK}targets: [{{url: 'http://127.0.0.1:9'}}]\n".encode(), "test")
            )
            await app.start()
            try:
                assert "sidecar_state_" not in await text(session, app.url + "/metrics")
            finally:
                await app.close()

    asyncio.run(story())


def test_saved_state_that_can_not_be_used_is_logged_once_by_each_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(application, "LOOK_EVERY", 0.05)
    path = tmp_path / "state.sqlite"
    StateStore(path).save({"slo/local": b"junk", "signals/local": b"junk"})

    async def story() -> None:
        async with SimulatedVllm() as server:
            config = f"{QUICK}targets: [{{url: '{server.url}'}}]\nstate_file: {path}\n"
            app = Application(load_bytes(config.encode(), "test"))
            await app.start()

            async def told() -> bool:
                return any("derived signals of target local" in one for one in messages(caplog))

            try:
                await until(told)
                await asyncio.sleep(0.3)
            finally:
                await app.close()

    asyncio.run(story())
    for room in ("derived signals of target local", "state of target local is not used"):
        assert len([one for one in messages(caplog) if room in one]) == 1, room


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records]


def test_before_a_start_it_is_a_note_and_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "state"
    taken.write_text("")
    config = tmp_path / "config.yaml"
    config.write_text(
        f"targets: [{{name: a, url: 'http://127.0.0.1:9'}}]\nstate_file: {taken}/deep/state.sqlite\n"
    )
    assert main(["check-config", str(config)]) == 0
    assert f"can't be kept here and now: {taken} is no folder" in " ".join(capsys.readouterr().err.split())
    main(["doctor", "a", "--config", str(config), "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert any(f"{taken} is no folder" in one["what"] and one["level"] == "warning" for one in findings)
    taken.unlink()
    assert main(["check-config", str(config)]) == 0
    assert "state_file: " not in capsys.readouterr().err


def test_why_a_file_can_not_be_written(tmp_path: Path) -> None:
    assert why_unwritable(tmp_path / "not" / "yet" / "state.sqlite") == ""
    assert why_unwritable(tmp_path) == "it is no file"
