"""Several sidecars seen as one, and KEDA's external scaler.

`discover`  where the sidecars are
`page`      the lines of a sidecar's page that count
`member`    one sidecar: its last page, and what can be said of its replicas
`total`     a sum over replicas of which some don't answer
`router`    who knows of work while there is no replica
`fleet`     everything added up, pure
`ask`       what KEDA asks, and the answer from the fleet's block
`externalscaler`, `scaler`  the same over gRPC
`seeds`     what is handed to newcomers
`role`      the process
"""

from __future__ import annotations
