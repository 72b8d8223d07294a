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
      max_wait_ms: how long a text waits for others to fill a batch.
      max_queue: texts that may wait, for each endpoint.
    """

    max_body_bytes: int = 512 * 1024
    requests_per_second: int = 50
    max_batch_size: int = 32
    max_wait_ms: float = 5.0
    max_queue: int = 1024

    def __post_init__(self):
        minimums = {"max_wait_ms": 0, "max_queue": MAX_TEXTS}
        for field in dataclasses.fields(self):
            minimum = minimums[field.name] if field.name in minimums else 1
            value = getattr(self, field.name)
            if value < minimum:
                reason = ", so that large requests fit" if minimum > 1 else ""
                raise ValueError(
                    f"--{field.name} must be {minimum} or more{reason}; received "
                    f"{value}"
                )
