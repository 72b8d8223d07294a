"""Flags with several values: comma-separated, in one flag or in several."""

from collections.abc import Sequence

from absl import flags

# A flag belongs to the module that calls `define`, whose --help lists it.
flags.disclaim_key_flags()


class _ListFlag(flags.Flag):
    """A comma-separated list, which adds to that of the same flag before it.

    With absl's own list flag the last one counts, so that `--input=a --input=b` would
    read b alone, without a word.
    """

    def parse(self, argument):
        before = self.value if self.present else []
        self.value = [*(before or []), *(self._parse(argument) or [])]
        self.present += 1


def define(
    name: str,
    default: Sequence[str] | None,
    help_text: str,
    flag_values: flags.FlagValues,
) -> None:
    """Defines a flag whose value is a list of strings.

    Args:
      name: without dashes.
      default: its value if it is not given; None if it has to be.
      help_text: of --help.
      flag_values: where it is defined.
    """
    value = None if default is None else list(default)
    parser, serializer = flags.ListParser(), flags.CsvListSerializer(",")
    flag = _ListFlag(parser, serializer, name, value, help_text)
    flags.DEFINE_flag(flag, flag_values)
