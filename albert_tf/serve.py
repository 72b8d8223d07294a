"""Serves a SavedModel made by albert_tf.export: a JSON API, and a page to try it.

python -m albert_tf.serve --saved_model=DIR
python -m albert_tf.serve --saved_model=DIR --port=8000 --host=127.0.0.1

The endpoints depend on the model: masks, sentence order and embeddings of a pre-trained
one, or the task of a fine-tuned one. / is the page, /docs describes the API. The server
listens on this machine only unless --host is set. Ctrl-C or SIGTERM stops it after the
current requests are answered. See docs/serving.md.
"""

import dataclasses
from collections.abc import Sequence

from absl import flags

from albert_tf.core import cli
from albert_tf.inference import saved_model_dir
from albert_tf.web import address
from albert_tf.web import settings as settings_lib


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    flags.DEFINE_string(
        "saved_model", None, "Directory of the SavedModel.", flag_values
    )
    flags.DEFINE_string(
        "host", "127.0.0.1", "Address to listen on; 0.0.0.0 is all.", flag_values
    )
    flags.DEFINE_integer(
        "port", 8000, "Port to listen on; 0 takes a free one.", 0, 65535, flag_values
    )
    cli.define_list(
        "trusted_proxies",
        [],
        "Addresses of proxies whose X-Forwarded-For names the client.",
        flag_values,
    )
    cli.define_list(
        "allowed_hosts",
        [],
        "Names that clients may use for it, besides localhost and --host; * is all.",
        flag_values,
    )
    default = settings_lib.ServerSettings()
    for name, text in (
        ("max_body_bytes", "Bytes of a request; larger ones get 413."),
        (
            "requests_per_second",
            "Requests per second of an address; more get 429.",
        ),
        ("max_batch_size", "Texts in a batch."),
        ("max_batch_tokens", "Tokens in a batch, about, with padding."),
        ("max_queue_tokens", "Tokens that may wait, about; more get 503."),
    ):
        flags.DEFINE_integer(
            name, getattr(default, name), text, 1, flag_values=flag_values
        )
    for name, text in (
        ("max_wait_ms", "How long a text waits for others to fill a batch."),
        ("timeout_ms", "How long a request may take; after that it gets 503."),
    ):
        flags.DEFINE_float(
            name, getattr(default, name), text, 0, flag_values=flag_values
        )
    flags.mark_flags_as_required(["saved_model"], flag_values)


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Serves until Ctrl-C or SIGTERM."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        cli.require_extra("serving", "fastapi", "uvicorn", "limits")
        names = [one.name for one in dataclasses.fields(settings_lib.ServerSettings)]
        settings = settings_lib.ServerSettings(
            **{name: getattr(flag_values, name) for name in names}
        )
        saved_model_dir.check(flag_values.saved_model)
        listening = address.listen(flag_values.host, flag_values.port)
        # Imported here: TensorFlow takes seconds, and flags, files and the address were
        # checked first.
        from albert_tf.web import server

        server.serve(
            listening,
            flag_values.saved_model,
            settings,
            flag_values.trusted_proxies,
            [flag_values.host, *flag_values.allowed_hosts],
        )


if __name__ == "__main__":
    cli.run(main, define_flags)
