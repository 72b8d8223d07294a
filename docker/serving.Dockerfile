# Serves an exported model over HTTP (docs/serving.md). At the root of the repository:
#
#   docker build --file=docker/serving.Dockerfile --tag=albert-tf-serving:1 .
#   docker run --init --read-only --tmpfs=/tmp --publish=127.0.0.1:8000:8000 \
#     --volume="$PWD/saved_model:/model:ro" albert-tf-serving:1
#
# More flags of albert_tf.serve may follow, in the place of those of CMD.
FROM python:3.12.12-slim-bookworm AS packages
WORKDIR /build
# What albert_tf.serve imports and what that pulls in, each file with its SHA-256.
COPY .ci/locks/requirements-serving.txt .ci/locks/
RUN python -m venv /opt/venv && \
    /opt/venv/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
    --require-hashes -r .ci/locks/requirements-serving.txt

FROM python:3.12.12-slim-bookworm
RUN useradd --uid=10001 --no-create-home --shell=/usr/sbin/nologin albert
COPY --from=packages /opt/venv /opt/venv
COPY albert_tf /app/albert_tf
WORKDIR /app
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    TF_CPP_MIN_LOG_LEVEL=2
USER 10001:10001
EXPOSE 8000
# /readyz answers 503 until the model is loaded.
HEALTHCHECK --interval=15s --timeout=5s --start-period=300s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=4).close()"]
ENTRYPOINT ["python", "-m", "albert_tf.serve"]
CMD ["--saved_model=/model", "--host=0.0.0.0"]
