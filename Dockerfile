# One image for web, worker and monitor. The front-end libraries are fetched in a stage of their own.
FROM node:22-bookworm-slim AS assets
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund

FROM python:3.12-slim-bookworm
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    UV_PYTHON_DOWNLOADS=never \
    PATH=/app/.venv/bin:$PATH
RUN pip install --no-cache-dir uv==0.13.9 \
    && useradd --create-home --uid 10001 relaunch \
    && install --directory --owner relaunch --mode 0700 /data
WORKDIR /app
COPY pyproject.toml uv.lock ./
RUN uv sync --frozen --no-default-groups --no-cache
COPY manage.py ./
COPY controlpanel controlpanel
COPY hosts hosts
COPY deployments deployments
COPY templates templates
COPY static static
COPY scripts/vendor_assets scripts/vendor_assets
COPY --from=assets /app/node_modules node_modules
RUN python scripts/vendor_assets \
    && rm -rf node_modules \
    && RELAUNCH_DATA_DIR=/tmp/build python manage.py collectstatic --no-input --verbosity 0 \
    && rm -rf /tmp/build
USER 10001
ENV RELAUNCH_DATA_DIR=/data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
CMD ["python", "-m", "controlpanel.serve", "--host", "0.0.0.0", "--port", "8000"]
