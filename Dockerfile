# Pinned by full version; look up the newest patch and its digest before a release (see `make audit`). Append `@sha256:…` to pin exactly the image that you have tested.
FROM docker.io/library/python:3.13.12-slim-trixie AS build
WORKDIR /src
COPY requirements.lock requirements-build.lock ./
# Downloads must match the hashes in the lock files. The wheels of this checkout then need no further packages.
RUN python -m venv /opt/build && python -m venv /opt/jqmaster \
    && /opt/build/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements-build.lock \
    && /opt/jqmaster/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY tools/wheels.py tools/publication.py tools/
COPY jqmaster jqmaster
COPY worker_sdk worker_sdk
COPY openapi openapi
COPY docs docs
RUN /opt/build/bin/python -m tools.wheels /tmp/wheels \
    && /opt/jqmaster/bin/pip install --no-cache-dir --no-deps --no-index /tmp/wheels/*.whl \
    # Compile now, because the root file system is read-only later.
    && /opt/jqmaster/bin/python -m compileall -q /opt/jqmaster/lib

FROM docker.io/library/python:3.13.12-slim-trixie
LABEL org.opencontainers.image.title="jqmaster" org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/opt/jqmaster/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    JQMASTER_HOST=0.0.0.0 JQMASTER_DATA_DIR=/data \
    # A worker of this image updates this file, whether it receives pushes or pulls. The health check reads its age.
    JQMASTER_HEALTH_FILE=/tmp/jqmaster-worker
RUN useradd --system --uid 10001 --home-dir /nonexistent --shell /usr/sbin/nologin jqmaster \
    # A named volume inherits this owner and mode.
    && install -d -o jqmaster -g jqmaster -m 0700 /data
COPY --from=build /opt/jqmaster /opt/jqmaster
COPY examples /app/examples
WORKDIR /app
USER 10001
VOLUME /data
EXPOSE 8080
# Liveness only: an orchestrator must not kill a master because its store is away.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["jqmaster", "healthcheck"]
# No shell in between, so SIGTERM reaches the master, which stops accepting requests, finishes, and ends its Valkey last.
ENTRYPOINT ["jqmaster"]
CMD ["serve"]
