# Two images from one file: `web` (no torch; also scorer, refiner, control, beat, migrate) and `worker` (explorer, trainer).
#   docker build --target web -t rftweb-web .
#   docker build --target worker -t rftweb-worker .                            NVIDIA GPUs
#   docker build --target worker --build-arg EXTRAS= -t rftweb-worker .        CPU only

FROM python:3.11-slim-bookworm AS web
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PATH=/opt/venv/bin:$PATH
RUN apt-get update \
 && apt-get install -y --no-install-recommends bubblewrap \
      libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0 fonts-dejavu-core \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --create-home rftweb \
 && install -d -o rftweb -g rftweb /var/lib/rftweb
WORKDIR /srv/rftweb
COPY scripts/setup scripts/setup
COPY requirements requirements
RUN python scripts/setup --venv /opt/venv --no-torch && rm -rf /root/.cache
COPY manage.py ./
COPY rftweb rftweb
COPY apps apps
COPY workers workers
COPY templates templates
COPY static static
USER rftweb
EXPOSE 8000
CMD ["python", "-m", "rftweb.server", "--host", "0.0.0.0", "--port", "8000"]

FROM web AS worker
ARG EXTRAS="--with gpu"
USER root
# Triton compiles its kernels at run time and needs a C compiler for that.
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/*
RUN python scripts/setup --venv /opt/venv ${EXTRAS} && rm -rf /root/.cache
USER rftweb
CMD ["python", "-m", "celery", "-q", "-A", "rftweb", "worker", "-P", "prefork", "-c", "1", "-Q", "explore"]
