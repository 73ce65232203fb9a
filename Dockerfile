# The decision service, with machine code compiled at build time.
#
#   docker build -t switchmdp .
#   docker build -t switchmdp --build-arg AGENTS="evidence-psrl sw-ucrl" .    # compile only these
#
# All dependencies have the versions and hashes of requirements.lock. Both stages must use the same
# image: prebuilt machine code fits one version of Python, Numba and NumPy.

FROM python:3.12-slim-bookworm AS build
ARG AGENTS=""
WORKDIR /source

COPY requirements.lock ./
RUN pip download --no-cache-dir --disable-pip-version-check --require-hashes \
      --only-binary :all: --dest /wheels --requirement requirements.lock

COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY tools tools
ENV PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /build \
    && /build/bin/pip install --no-cache-dir hatchling editables \
    && /build/bin/pip install --no-cache-dir --no-build-isolation --editable .
# AGENTS is a list of words. Without it, all agents are compiled.
# hadolint ignore=SC2086
RUN /build/bin/python tools/prebuild.py /prebuilt ${AGENTS:+--only ${AGENTS}} \
    && SWITCHMDP_PREBUILT=/prebuilt /build/bin/pip wheel --no-cache-dir --no-deps \
      --no-build-isolation --wheel-dir /dist .
RUN python -m venv /opt/switchmdp \
    && for wheel in /dist/*.whl; do \
      /opt/switchmdp/bin/pip install --no-cache-dir "${wheel}[serve,postgres]"; done

FROM python:3.12-slim-bookworm
COPY --from=build /opt/switchmdp /opt/switchmdp
# Machine code that is not in the wheel is compiled when it is first needed, and stored here.
ENV PATH=/opt/switchmdp/bin:$PATH SWITCHMDP_CACHE=/var/cache/switchmdp PYTHONUNBUFFERED=1
RUN useradd --system --uid 10001 --no-create-home switchmdp \
    && install --directory --owner switchmdp --mode 0700 /data /var/cache/switchmdp
USER 10001
VOLUME ["/data", "/var/cache/switchmdp"]
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["switchmdp", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["--database", "/data/switchmdp.sqlite", "--token-file", "/run/secrets/token"]
