"""A published model, and the clients that fetch it led to a server on loopback."""

import dataclasses
import pathlib

import huggingface_hub.constants
import kagglesdk.kaggle_env
import pytest

from albert_tf.core import config
from albert_tf.interchange import archive_download, conversion, portable, weight_map
from tests.support import portable_models, small_run

MODEL = dataclasses.replace(
    portable_models.draw(vocab_size=4000), vocab=small_run.VOCAB.read_bytes()
)


def write(name: str, folder: pathlib.Path) -> pathlib.Path:
    """Writes the model in a format."""
    report = weight_map.ConversionReport()
    conversion.write(name, MODEL, str(folder), config.Config(), report)
    return folder


def read(name: str, folder: str, **given) -> portable.PortableModel:
    """Reads a model of a format, with options."""
    options, report = portable.ReadOptions(**given), weight_map.ConversionReport()
    return conversion.READERS[name](folder, options, report)


def lead_to(
    address: str, patch: pytest.MonkeyPatch, folder: pathlib.Path
) -> pathlib.Path:
    """Leads the clients to an address, without anyone's login.

    Returns:
      The directory of their caches, below `folder`.
    """
    caches = folder / "caches"
    hub = huggingface_hub.constants
    patch.setattr(hub, "HF_HUB_CACHE", str(caches / "hub"))
    patch.setattr(hub, "HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
    patch.setattr(hub, "ENDPOINT", address)
    files = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    patch.setattr(hub, "HUGGINGFACE_CO_URL_TEMPLATE", files)
    production = kagglesdk.kaggle_env.KaggleEnv.PROD
    patch.setitem(kagglesdk.kaggle_env._env_to_endpoint, production, address)
    patch.setenv("KAGGLEHUB_CACHE", str(caches / "kaggle"))
    patch.setenv("HOME", str(folder))
    patch.setattr(archive_download, "_ADDRESS", f"{address}/albert_models")
    patch.setenv("XDG_CACHE_HOME", str(caches))
    return caches
