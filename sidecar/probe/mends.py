"""What mends a probe that fails, by its result."""

from __future__ import annotations

MENDS = {
    "refused": "nothing listens there: set `targets[].probe.url` or `api_url`",
    "timeout": "the runtime answers too slowly: raise `probe.timeout`, or look at its load",
    "dns": "the host name can't be resolved: check `targets[].probe.url`",
    "tls": "check `tls.ca_file`, `tls.server_name` and the client certificate",
    "unauthorized": "give credentials: `auth.bearer_token_file` or `auth.basic`",
    "not_found": "set `targets[].probe.path` and `model`; a model that completes nothing: `enabled: false`",
    "bad_request": "a model that completes nothing (embeddings, say)? `targets[].probe.enabled: false`",
    "rejected": "the runtime is full: so are its clients' requests refused",
    "http_error": "the runtime answers with an error: see its log",
    "not_a_stream": "this path doesn't stream: set `targets[].probe.path`",
    "failed": "the runtime failed while it answered: see its log",
    "empty": "the model ends its answer at once: set `targets[].probe.prompt`",
    "cut": "something between here and the runtime cuts streams, or the runtime died",
    "too_large": "the runtime ignores max_tokens, or something else answers here",
}
