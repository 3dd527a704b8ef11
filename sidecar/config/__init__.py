"""What a user may write, strict and with every default; errors that name the file, the key and the mend."""

from __future__ import annotations

from sidecar.config.addresses import Address
from sidecar.config.effective import effective_yaml
from sidecar.config.load import load, load_bytes
from sidecar.config.model import Autoscaling, Config, Cost, Gpu, Otlp, Outputs, Probe
from sidecar.config.places import PLACES, Place
from sidecar.config.problem import ConfigError, KeyPath, Mark, Problem
from sidecar.config.secret import SecretFile, SecretUnreadable
from sidecar.config.slos import LATENCY_SIGNALS, AlertWindow, Slo
from sidecar.config.targets import RUNTIMES, Auth, Basic, Capacity, Target, Tls
from sidecar.config.watch import ConfigFile

__all__ = [
    "LATENCY_SIGNALS",
    "PLACES",
    "RUNTIMES",
    "Address",
    "AlertWindow",
    "Auth",
    "Autoscaling",
    "Basic",
    "Capacity",
    "Config",
    "ConfigError",
    "ConfigFile",
    "Cost",
    "Gpu",
    "KeyPath",
    "Mark",
    "Otlp",
    "Outputs",
    "Place",
    "Probe",
    "Problem",
    "SecretFile",
    "SecretUnreadable",
    "Slo",
    "Target",
    "Tls",
    "effective_yaml",
    "load",
    "load_bytes",
]
