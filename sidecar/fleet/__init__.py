"""Several sidecars seen as one, and KEDA's external scaler."""

from __future__ import annotations
