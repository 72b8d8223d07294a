"""What a server allows, and how it makes batches."""

import dataclasses

# Of a request, as the API's page tells them. They bound what one request costs.
MAX_TEXTS = 32  # or pairs, or questions
MAX_CHARACTERS = 20_000  # of each text
MAX_MASKS = 20  # of each text; a mask takes logits as long as the vocabulary
MAX_TOP_K = 100
MAX_OPTIONS = 10  # of each question; an option is a row of the model


@dataclasses.dataclass(frozen=True)
class Settings:
    """Limits and batching of a server, which its flags set.

    Attributes:
      max_body_bytes: of a request; more is refused before it is parsed.
      requests_per_second: of one client address.
      max_batch_size: texts that go through the model at a time.
      max_wait_ms: how long a text waits for others, to make a batch.
      max_queue: texts that may wait, for each endpoint.
    """

    max_body_bytes: int = 512 * 1024
    requests_per_second: int = 50
    max_batch_size: int = 32
    max_wait_ms: float = 5.0
    max_queue: int = 1024

    def __post_init__(self):
        leasts = {"max_wait_ms": 0, "max_queue": MAX_TEXTS}
        for field in dataclasses.fields(self):
            least = leasts[field.name] if field.name in leasts else 1
            value = getattr(self, field.name)
            if value < least:
                why = ", or large requests never find room" if least > 1 else ""
                raise ValueError(
                    f"--{field.name} must be {least} or more{why}; received {value}"
                )
