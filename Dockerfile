# syntax=docker/dockerfile:1
# Two images from one file: `web` (no torch; also scorer, refiner, control, beat, migrate) and
# `worker` (explorer, trainer).
#   docker build --target web -t rftweb-web .
#   docker build --target worker -t rftweb-worker .                            NVIDIA GPUs
#   docker build --target worker --build-arg TORCH=cpu -t rftweb-worker .      no GPU
#
# `make images` builds both, with the machine's pip settings: these are there as secrets while pip
# runs, and in no layer. Code comes last: a change of it installs nothing anew.

FROM python:3.11-slim-bookworm AS environment
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PATH=/opt/venv/bin:$PATH
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends bubblewrap \
      libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0 fonts-dejavu-core \
 && apt-get clean \
 && rm -rf /var/lib/apt/lists/* /var/cache/debconf/*-old /var/log/apt /var/log/dpkg.log \
 && groupadd --gid 10001 rftweb \
 && useradd --uid 10001 --gid rftweb --create-home --shell /usr/sbin/nologin rftweb \
 && install -d -o rftweb -g rftweb /var/lib/rftweb \
 && install -d /srv/plugins
WORKDIR /srv/rftweb
COPY scripts/setup scripts/setup
COPY requirements requirements
RUN --mount=type=secret,id=pip --mount=type=secret,id=certificates \
    --mount=type=cache,target=/root/.cache/pip \
    PIP_CONFIG_FILE=/run/secrets/pip python scripts/setup --venv /opt/venv --no-torch

FROM environment AS code
COPY manage.py ./
COPY rftweb rftweb
COPY apps apps
COPY workers workers
COPY templates templates
COPY static static
COPY examples examples
COPY docs docs
# What a run's record calls the version of its code; there is no git in the image.
ARG COMMIT=
RUN printf '%s' "$COMMIT" > COMMIT
# Nobody writes here later, and without byte code each process would compile the source anew.
RUN python -m compileall -q --invalidation-mode unchecked-hash manage.py rftweb apps workers

FROM environment AS web
COPY --from=code /srv/rftweb /srv/rftweb
USER rftweb
EXPOSE 8000
CMD ["python", "-m", "rftweb.server", "--host", "0.0.0.0", "--port", "8000"]

FROM environment AS torch
# cuda: PyTorch's CUDA build and vLLM. cpu: PyTorch's CPU build, for the engine `transformers`.
ARG TORCH=cuda
# Further extras of scripts/setup, such as "--with opentelemetry".
ARG EXTRAS=
# Triton compiles its kernels at run time and needs a C compiler for that; it comes with CUDA alone.
RUN case "$TORCH" in \
      cuda) ;; \
      cpu) exit 0 ;; \
      *) echo "TORCH is '$TORCH'; it must be cpu or cuda" >&2; exit 1 ;; \
    esac \
 && apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev \
 && apt-get clean \
 && rm -rf /var/lib/apt/lists/* /var/cache/debconf/*-old /var/log/apt /var/log/dpkg.log
RUN --mount=type=secret,id=pip --mount=type=secret,id=certificates \
    --mount=type=cache,target=/root/.cache/pip \
    if [ "$TORCH" = cuda ]; then set -- --with gpu; else set --; fi \
 && PIP_CONFIG_FILE=/run/secrets/pip python scripts/setup --venv /opt/venv "$@" $EXTRAS

FROM torch AS worker
COPY --from=code /srv/rftweb /srv/rftweb
USER rftweb
CMD ["python", "-m", "celery", "-q", "-A", "rftweb", "worker", "-P", "prefork", "-c", "1", "-Q", "explore"]
