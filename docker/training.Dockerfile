# Trains on a CPU, on GPUs or on a TPU (docs/clusters.md). At the root of the repository:
#
#   docker build --file=docker/training.Dockerfile --build-arg=ACCELERATOR=gpu \
#     --tag=REGION-docker.pkg.dev/PROJECT/REPOSITORY/albert-tf:gpu-1 .
#   docker run --init --gpus=all IMAGE albert_tf.pretrain --config=configs/small.py ...
#
# Without arguments it checks the machine.
ARG ACCELERATOR=cpu

FROM python:3.12.12-slim-bookworm AS python
WORKDIR /app
RUN python -m venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH
COPY constraints.txt requirements.txt requirements-tpu.txt ./

FROM python AS packages-cpu
COPY .ci/locks/requirements.txt .ci/locks/
RUN python -m pip install --no-cache-dir --disable-pip-version-check \
    --require-hashes -r .ci/locks/requirements.txt

FROM python AS packages-gpu
# The extra brings CUDA and cuDNN; the pin stays that of requirements.txt.
RUN sed "s/^tensorflow==/tensorflow[and-cuda]==/" requirements.txt \
    > requirements-gpu.txt && \
    python -m pip install --no-cache-dir --disable-pip-version-check \
    -r requirements-gpu.txt -c constraints.txt

FROM python AS packages-tpu
# Without dependencies, for the reason in the file.
RUN python -m pip install --no-cache-dir --disable-pip-version-check \
    --no-deps -r requirements-tpu.txt

# hadolint ignore=DL3006
FROM packages-${ACCELERATOR}
WORKDIR /app
RUN useradd --uid=10001 --create-home --shell=/usr/sbin/nologin albert
COPY pyproject.toml ./
COPY configs configs
COPY albert_tf albert_tf
COPY data_prep data_prep
# With NVIDIA's container toolkit these make the driver visible; elsewhere they mean
# nothing.
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    NVIDIA_VISIBLE_DEVICES=all \
    PYTHONDONTWRITEBYTECODE=1 \
    TF_CPP_MIN_LOG_LEVEL=2
USER 10001:10001
ENTRYPOINT ["python", "-u", "-m"]
CMD ["albert_tf.doctor"]
