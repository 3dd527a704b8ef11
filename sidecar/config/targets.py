"""What is read: one target is one replica of a runtime, with its address, credentials and capacity."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import ValidationInfo, field_validator

from sidecar.config.addresses import Url, UrlPath
from sidecar.config.forms import Choice, FilePath, Flag, Word, Words
from sidecar.config.numbers import Count, Duration, Number, Size
from sidecar.config.problem import Mistake
from sidecar.config.secret import Secret, SecretFile
from sidecar.config.section import Section

NAME = Word(pattern=r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", what="a name", like="local (letters, digits, . _ -)")

#: Values of the label `runtime`; a user's own mapping may add others.
RUNTIMES = (
    "vllm",
    "triton",
    "nim",
    "tensorrt_llm",
    "sglang",
    "tgi",
    "dynamo",
    "ray_serve",
    "bentoml",
    "kserve",
    "llamacpp",
    "custom",
)

# Keys of a target that the top level has, too.
STALENESS = Duration(low=0.2, high=86_400)
Interval = Annotated[float, Duration(low=0.1, high=3600), "How often a target is read."]
Timeout = Annotated[float, Duration(low=0.01, high=300), "Deadline of one reading."]
WedgedAfter = Annotated[
    float, Duration(low=1, high=86_400), "Work in flight and no progress for so long: `target_wedged`."
]
MaxPageSize = Annotated[int, Size(low=1024, high=1024**3), "A larger metrics page is refused."]
MaxSeries = Annotated[
    int, Count(low=1, high=1_000_000), "Series that a target may add; what is more is dropped and counted."
]


class Basic(Section):
    username: Annotated[
        str, Word(pattern=r"[!-9;-~][ -9;-~]{0,255}", what="a user name", like="prometheus"), "User name."
    ]
    password_file: Annotated[SecretFile, Secret(), "File that holds the password."]


class Auth(Section):
    bearer_token_file: Annotated[
        SecretFile | None,
        Secret(optional="null"),
        "File that holds the token of `Authorization: Bearer …`; read anew for each connection.",
    ] = None
    basic: Annotated[Basic | None, "HTTP basic authentication, instead of a token."] = None

    @field_validator("basic")
    @classmethod
    def _one_of_two(cls, basic: Basic | None, info: ValidationInfo) -> Basic | None:
        if basic and info.data.get("bearer_token_file"):
            raise Mistake("beside bearer_token_file", "keep one of the two", echo=False)
        return basic


class Tls(Section):
    ca_file: Annotated[
        Path | None, FilePath(optional="null"), "CA certificates to trust instead of the system's, PEM."
    ] = None
    cert_file: Annotated[Path | None, FilePath(optional="null"), "Client certificate, PEM."] = None
    key_file: Annotated[
        SecretFile | None, Secret(optional="null"), "Private key of the client certificate, PEM."
    ] = None
    server_name: Annotated[
        str | None,
        Word(pattern=r"[A-Za-z0-9_.:-]{1,253}", what="a host name", like="vllm.example.org", optional="null"),
        "Name that the server's certificate must carry, when it isn't the URL's host.",
    ] = None
    insecure_skip_verify: Annotated[
        bool, Flag(), "Accept any certificate. Said in the log and by doctor."
    ] = False

    @field_validator("key_file")
    @classmethod
    def _a_pair(cls, key_file: SecretFile | None, info: ValidationInfo) -> SecretFile | None:
        if key_file and not info.data.get("cert_file", True):
            raise Mistake("a key without its certificate", "give cert_file, too", echo=False)
        return key_file


class Capacity(Section):
    slots: Annotated[
        int | None, Count(low=1, high=10_000_000, optional="auto"), "The most requests that may run at once."
    ] = None
    idle_inter_token_latency: Annotated[
        float | None,
        Duration(low=1e-6, high=60, optional="auto"),
        "Gap between two tokens of a lone request: the seed until a quiet moment was seen.",
    ] = None
    service_time: Annotated[
        float | None,
        Duration(low=1e-6, high=86_400, optional="auto"),
        "Mean execution time of a request: the seed until requests finish.",
    ] = None
    gpus: Annotated[
        float | None,
        Number(low=0, high=4096, optional="auto"),
        "GPUs of this replica, where none can be seen.",
    ] = None


DEVICE = Word(
    pattern=r"(GPU|MIG)-[0-9A-Za-z/-]{1,80}",
    what="the UUID of a GPU",
    like="GPU-3b6a…",
)
_POD = Word(
    pattern=r"[a-z0-9][a-z0-9.-]{0,252}/[a-z0-9][a-z0-9.-]{0,252}",
    what="a pod",
    like="models/llama-0 (namespace/name)",
    optional="null",
)


class TargetProbe(Section):
    enabled: Annotated[
        bool | None, Flag(optional="auto"), "Probe this target; `auto` is what `probe.enabled` says."
    ] = None
    url: Annotated[
        str | None, Url(optional="auto"), "Address that completions are asked of; `auto` is that of the API."
    ] = None
    path: Annotated[
        str | None,
        UrlPath(optional="auto"),
        "Path of a completion that streams, `{model}` for the model's name; `auto` is the runtime's own.",
    ] = None
    model: Annotated[
        str | None,
        Word(pattern=r"[^\x00-\x1f]{1,256}", what="the name of a model", like="llama-8b", optional="auto"),
        "The model to ask for; `auto`: each one that the runtime names, in turn.",
    ] = None
    prompt: Annotated[
        str | None,
        Word(pattern=r"[^\x00-\x1f]{1,2000}", what="a text", like="Tell a story.", optional="auto"),
        "What is asked, after a word that differs each time.",
    ] = None


class Target(Section):
    name: Annotated[str, NAME, "Value of the label `target`; unique."] = "local"
    url: Annotated[str, Url(), "Address of the runtime, without the path of its metrics page."] = (
        "http://127.0.0.1:8000"
    )
    runtime: Annotated[
        str,
        Word(pattern=r"[a-z][a-z0-9_]{0,62}", what="the name of a runtime", like="auto or vllm"),
        f"`auto`, one of {', '.join(f'`{name}`' for name in RUNTIMES)}, or one that `mappings` adds.",
    ] = "auto"
    metrics_path: Annotated[
        str | None, UrlPath(optional="auto"), "Path of the metrics page; `auto` is the runtime's own."
    ] = None
    api_url: Annotated[
        str | None,
        Url(optional="auto"),
        "Address of the API (health, version, models) where it has another port; `auto`: the runtime's own.",
    ] = None
    live_path: Annotated[
        str | None, UrlPath(optional="auto"), "Path of the liveness endpoint; `auto` is the runtime's own."
    ] = None
    ready_path: Annotated[
        str | None, UrlPath(optional="auto"), "Path of the readiness endpoint; `auto` is the runtime's own."
    ] = None
    role: Annotated[
        Literal["both", "prefill", "decode"],
        Choice(),
        "What a disaggregated replica does; one that only prefills has no end-to-end objective.",
    ] = "both"
    gpus: Annotated[
        tuple[str, ...],
        Words(each=DEVICE, many="GPU UUIDs"),
        "The GPUs that it uses, where several targets share a host and nothing else tells.",
    ] = ()
    pod: Annotated[
        str | None, _POD, "Its pod, where the kubelet or a GPU exporter names pods (node mode)."
    ] = None
    draining: Annotated[
        bool,
        Flag(),
        "Read what a runtime gives to one reader only, beside its page: TensorRT-LLM's iteration rows.",
    ] = False
    per_rank: Annotated[bool, Flag(), "Also one series for each data-parallel rank, label `rank`."] = False
    interval: Interval = 2.0
    timeout: Timeout = 2.0
    staleness: Annotated[float, STALENESS, "Age at which its values vanish."] = 10.0
    wedged_after: WedgedAfter = 60.0
    max_page_size: MaxPageSize = 32 * 1024**2
    max_series: MaxSeries = 2000
    auth: Annotated[Auth, "Credentials towards the runtime."] = Auth()
    tls: Annotated[Tls, "TLS towards the runtime."] = Tls()
    capacity: Annotated[Capacity, "What the runtime doesn't tell of itself."] = Capacity()
    probe: Annotated[TargetProbe, "How it is probed, where that isn't the runtime's usual way."] = (
        TargetProbe()
    )


#: Keys that a target takes from the top level where it doesn't say them itself.
INHERITED = ("interval", "timeout", "staleness", "wedged_after", "max_page_size", "max_series")
