# syntax=docker/dockerfile:1
# Any image with Python 3.11 or newer and its venv module; both stages use the same one.
ARG BASE=docker.io/library/python:3.13-slim-trixie

# hadolint ignore=DL3006
FROM ${BASE} AS build
# rules: PromQL for `lint`; the others are what a sidecar, a node or a fleet needs.
ARG EXTRAS=nvml,otlp,keda,web,rules
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY sidecar ./sidecar
# Compiled here: the image runs with a read-only root. pip goes again, it isn't needed where nothing is installed.
RUN python3 -m venv /opt/sidecar \
 && /opt/sidecar/bin/pip install --no-cache-dir --disable-pip-version-check \
      --constraint constraints.txt ".[${EXTRAS}]" \
 && /opt/sidecar/bin/pip freeze --all --exclude pip --exclude setuptools >/opt/sidecar/packages.txt \
 && /opt/sidecar/bin/pip uninstall --yes --quiet pip setuptools

# hadolint ignore=DL3006
FROM ${BASE}
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="inference-sidecar" \
      org.opencontainers.image.description="One telemetry schema for every inference runtime" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/sidecar /opt/sidecar
ENV PATH=/opt/sidecar/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
# A number, so that Kubernetes can see that it isn't root.
USER 65532:65532
EXPOSE 9845
ENTRYPOINT ["inference-sidecar"]
CMD ["run"]
