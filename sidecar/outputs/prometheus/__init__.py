"""The Prometheus page: text format 0.0.4 and OpenMetrics 1.0."""

from __future__ import annotations

from sidecar.outputs.prometheus.page import Page, render_blocks
from sidecar.outputs.prometheus.scrape import Scrape, blocks_of

__all__ = ["Page", "Scrape", "blocks_of", "render_blocks"]
