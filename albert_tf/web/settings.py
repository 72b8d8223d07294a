"""Limits and batching of a server."""

import dataclasses

# Limits of a request, which the API's page lists. They bound its cost.
MAX_TEXTS = 32  # or pairs, or questions
MAX_CHARACTERS = 20_000  # of each text
MAX_MASKS = 20  # of each text; a mask needs logits of the size of the vocabulary
MAX_TOP_K = 100
MAX_OPTIONS = 10  # of each question; an option is a row of the model


@dataclasses.dataclass(frozen=True)
class ServerSettings:
    """Limits and batching of a server; each is a flag of the binary.

    Attributes:
      max_body_bytes: of a request; larger ones are refused before they are parsed.
      requests_per_second: of one client address.
      max_batch_size: texts in a batch.
      max_batch_tokens: tokens in a batch, about, with padding.
      max_wait_ms: how long a text waits for others to fill a batch.
      max_queue_tokens: tokens that may wait, about, for each endpoint.
      timeout_ms: how long a request may take; then it is refused, and what of it was
        not computed yet never is.
    """

    max_body_bytes: int = 512 * 1024
    requests_per_second: int = 50
    max_batch_size: int = 32
    max_batch_tokens: int = 8192
    max_wait_ms: float = 5.0
    max_queue_tokens: int = 131072
    timeout_ms: float = 30_000.0

    def __post_init__(self):
        for field in dataclasses.fields(self):
            minimum = 0 if field.name == "max_wait_ms" else 1
            value = getattr(self, field.name)
            if value < minimum:
                raise ValueError(
                    f"--{field.name} must be {minimum} or more; received {value}"
                )
