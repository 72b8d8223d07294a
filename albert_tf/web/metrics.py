"""Metrics of the server, for Prometheus."""

from collections.abc import Callable

import prometheus_client

BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The metrics of one server, in a separate registry."""

    def __init__(self):
        self._registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=self._registry)
        self._requests = prometheus_client.Counter(
            "albert_requests",
            "Requests answered, by endpoint and HTTP status.",
            ["endpoint", "status"],
            registry=self._registry,
        )
        self._seconds = prometheus_client.Histogram(
            "albert_request_seconds",
            "From a request's head to the end of its answer.",
            ["endpoint"],
            registry=self._registry,
        )
        self._batch_size = prometheus_client.Histogram(
            "albert_batch_size",
            "Texts in a batch.",
            ["endpoint"],
            buckets=BATCH_SIZES,
            registry=self._registry,
        )
        self._queue_length = prometheus_client.Gauge(
            "albert_queue_length",
            "Texts that wait for the model.",
            ["endpoint"],
            registry=self._registry,
        )
        self._queue_tokens = prometheus_client.Gauge(
            "albert_queue_tokens",
            "Tokens of the texts that wait for the model, estimated.",
            ["endpoint"],
            registry=self._registry,
        )

    def count_request(self, endpoint: str, status: int, seconds: float) -> None:
        """Counts one answered request."""
        self._requests.labels(endpoint, str(status)).inc()
        self._seconds.labels(endpoint).observe(seconds)

    def watch_queue(
        self, endpoint: str, waiting: Callable[[], tuple[int, int]]
    ) -> Callable[[int], None]:
        """Starts to export the metrics of a queue.

        Args:
          endpoint: its label.
          waiting: returns the number of texts that wait, and of their tokens.

        Returns:
          A function to call with the size of each batch.
        """
        self._queue_length.labels(endpoint).set_function(lambda: waiting()[0])
        self._queue_tokens.labels(endpoint).set_function(lambda: waiting()[1])
        return self._batch_size.labels(endpoint).observe

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return prometheus_client.generate_latest(self._registry)
