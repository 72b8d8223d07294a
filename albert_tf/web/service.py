"""A model with request queues, from loading to stopping."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.web import batching, metrics, model, schemas, sizes
from albert_tf.web import settings as settings_lib

LOADING = "the model is not loaded; try again in a few seconds"


class NotReady(RuntimeError):
    """The model is not loaded yet."""


class TooLate(RuntimeError):
    """A request took longer than it may."""


class Service:
    """One queue and one worker for each endpoint of a model."""

    def __init__(
        self,
        settings: settings_lib.ServerSettings,
        server_metrics: metrics.Metrics,
    ):
        """Answers nothing yet.

        Args:
          settings: limits and batching.
          server_metrics: count batches, and what waits.
        """
        self._settings = settings
        self._metrics = server_metrics
        self._batchers: dict[str, batching.RequestBatcher] = {}

    @property
    def endpoints(self) -> tuple[schemas.Endpoint, ...]:
        """The endpoints of the model; none before it is loaded or after `close`."""
        return tuple(e for e in schemas.ENDPOINTS if e.name in self._batchers)

    @property
    def is_ready(self) -> bool:
        """Returns whether the model is loaded and the server is not stopping."""
        return bool(self._batchers)

    def open(
        self,
        functions: Mapping[str, model.Function],
        lengths: sizes.Lengths = sizes.DEFAULT_LENGTHS,
    ) -> None:
        """Starts to answer.

        Args:
          functions: by signature, from web.model.
          lengths: of the model.
        """
        for endpoint in schemas.ENDPOINTS:
            if endpoint.signature in functions:
                self._open_endpoint(
                    endpoint.name,
                    functions[endpoint.signature],
                    sizes.size_of(endpoint.signature, lengths),
                )

    def _open_endpoint(
        self, name: str, function: model.Function, size_of: sizes.SizeOf
    ) -> None:
        # The queue exists only after the batcher was created.
        on_batch = self._metrics.watch_queue(name, lambda: self._waiting(name))
        self._batchers[name] = batching.RequestBatcher(
            function,
            batching.Limits(
                self._settings.max_batch_size,
                self._settings.max_batch_tokens,
                self._settings.max_wait_ms,
                self._settings.max_queue_tokens,
            ),
            size_of,
            on_batch,
        )

    def _waiting(self, name: str) -> tuple[int, int]:
        """The number of items that wait, and of their tokens."""
        batcher = self._batchers.get(name)
        return (batcher.num_waiting, batcher.num_tokens_waiting) if batcher else (0, 0)

    async def ask(self, name: str, items: Sequence[Any], client: str = "") -> list[Any]:
        """The answers to all items, in order.

        Args:
          name: of the endpoint.
          items: what to answer.
          client: address of the client, with which others share the endpoint equally.

        Raises:
          NotReady: the model is not loaded, or the server is stopping.
          TooLate: they took longer than `timeout_ms`.
          batching.QueueFull: too many items wait.
          model.Unanswerable: an item cannot be answered.
        """
        if name not in self._batchers:
            raise NotReady(LOADING)
        futures = self._batchers[name].submit(items, client)
        seconds = self._settings.timeout_ms / 1000
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.gather(*map(asyncio.wrap_future, futures))
        except TimeoutError as error:
            raise TooLate(
                f"a request may take {seconds:g} s; this one took longer, because of "
                "its size or of others before it. Try again later, or send fewer texts"
            ) from error
        finally:
            for future in futures:
                future.cancel()  # nobody waits for what is not computed yet

    def close(self) -> None:
        """Answers the waiting items, and ends the threads."""
        batchers, self._batchers = self._batchers, {}
        for batcher in batchers.values():
            batcher.close()
