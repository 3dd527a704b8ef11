"""How the parts are put together: the only composition root, for commands and tests alike."""

from __future__ import annotations

from sidecar.app.application import Application
from sidecar.app.parts import registry_of, settings_of, stages_of

__all__ = ["Application", "registry_of", "settings_of", "stages_of"]
