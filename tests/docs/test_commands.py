"""What the docs tell to type is typed: configs load, commands parse, one page runs as printed, links lead on."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from sidecar.cli import COMMANDS
from sidecar.config import Config, load_bytes
from sidecar.outputs.web_config import read_web_config
from sidecar.simulator.server import SimulatedVllm
from tests.deploy.manifests import complaints, run, tool
from tests.docs.cli_reference import cli_markdown, parser_of

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
WEB = {"tls_server_config", "http_server_config", "basic_auth_users", "bearer_token_files", "rate_limit"}


@dataclass(frozen=True)
class Example:
    page: str
    line: int
    info: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def examples(path: Path) -> list[Example]:
    page = str(path.relative_to(ROOT))
    text = path.read_text()
    return [
        Example(page, text[: found.start()].count("\n") + 1, found[1].strip(), found[2])
        for found in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.M | re.S)
    ]


EXAMPLES = [one for path in PAGES for one in examples(path)]
CONFIGS = [one for one in EXAMPLES if one.info == "yaml"]
COMMAND_LINES = sorted(
    {
        (str(one), line.strip())
        for one in EXAMPLES
        if one.info in ("", "sh", "bash", "console")
        for line in one.text.replace("\\\n", " ").splitlines()
        if re.match(r"(\S*/)?inference-sidecar [a-z-]", line.strip())
    }
)


@pytest.mark.parametrize("example", CONFIGS, ids=str)
def test_a_config_in_the_docs_is_one(example: Example, tmp_path: Path) -> None:
    documents = [one for one in yaml.safe_load_all(example.text) if one is not None]
    assert documents
    for document in documents:
        if set(document) <= set(Config.model_fields):
            load_bytes(example.text.encode(), str(example))
        elif set(document) & WEB:
            web = tmp_path / "web.yml"
            web.write_text(example.text)
            read_web_config(web)
        elif "scrape_configs" in document or "rule_files" in document:
            (tmp_path / "prometheus.yaml").write_text(example.text)
            run(tool("promtool"), "check", "config", "--syntax-only", str(tmp_path / "prometheus.yaml"))
        elif "apiVersion" in document:
            found = complaints(document)
            assert not found or found[0].startswith("no schema for"), found
        elif "runtime" in document or "signals" in document:
            load_bytes(yaml.safe_dump({"mappings": [document]}).encode(), str(example))


@pytest.mark.parametrize(("place", "line"), COMMAND_LINES, ids=lambda one: str(one))
def test_a_command_in_the_docs_is_understood(place: str, line: str) -> None:
    words = shlex.split(line.partition(" | ")[0].removesuffix("&"), comments=True)[1:]
    while words[0] == "--log-level" or words[0].startswith("--log-level="):
        words = words[1 if "=" in words[0] else 2 :]
    command, rest = words[0], words[1:]
    assert command in COMMANDS, f"{place}: no command {command}"
    if "…" in line or "TARGET|PAGE" in line:
        return
    try:
        parser_of(command).parse_args(rest)
    except SystemExit as error:
        pytest.fail(f"{place}: {line}: exit {error.code}")


def test_the_commands_page_is_what_the_parsers_say() -> None:
    path, text = ROOT / "docs/cli.md", cli_markdown()
    if os.environ.get("GOLDEN_UPDATE"):
        path.write_text(text)
    assert path.read_text() == text, "docs/cli.md is old: GOLDEN_UPDATE=1 make test writes it anew"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


RUN = [path for path in PAGES if "<!-- run: vllm -->" in path.read_text()]


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.name)
def test_a_getting_started_page_works_as_printed(path: Path, tmp_path: Path) -> None:
    """All of it in one shell, in an empty folder; ports are free ones, installing is tested elsewhere."""
    port = free_port()

    async def story() -> tuple[int, str]:
        async with SimulatedVllm() as server:

            def real(text: str) -> str:
                text = text.replace("http://127.0.0.1:8000", server.url)
                return text.replace("127.0.0.1:9845", f"127.0.0.1:{port}")

            script = ["set -eu"]
            for one in examples(path):
                first = one.text.splitlines()[0]
                if one.info == "yaml" and first.startswith("# ") and first.endswith(".yaml"):
                    body = real(one.text) + f"listen: 127.0.0.1:{port}\ngpu: {{source: none}}\n"
                    (tmp_path / first.removeprefix("# ")).write_text(body)
                elif one.info == "sh":
                    script.append(real(one.text))
            script.append("kill %1 && wait %1")
            bash = await asyncio.create_subprocess_exec(
                "bash",
                "-c",
                "\n".join(script),
                cwd=tmp_path,
                env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            out, _ = await asyncio.wait_for(bash.communicate(), 60)
            return bash.returncode or 0, out.decode()

    code, out = asyncio.run(story())
    assert code == 0, out
    assert "inference_requests_running{" in out and '"value"' in out
    assert "inference-fleet.json" in out and ".rules.yaml" in out


def test_some_page_is_run_and_some_config_is_seen() -> None:
    assert RUN and len(CONFIGS) > 20 and len(COMMAND_LINES) > 10


ANCHOR = re.compile(r"[^\w\- ]")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        there = (path.parent / name).resolve() if name else path
        if not there.exists():
            dead.append(link)
        elif anchor and there.suffix == ".md":
            titles = re.findall(r"^#+ (.+)$", there.read_text(), re.M)
            slugs = {
                ANCHOR.sub("", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", one)).strip().lower() for one in titles
            }
            if anchor not in {one.replace(" ", "-") for one in slugs}:
                dead.append(link)
    assert not dead, f"{path.relative_to(ROOT)}: {dead}"
