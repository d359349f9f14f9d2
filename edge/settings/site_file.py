"""Reads a site configuration from its YAML file."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import yaml

from edge.core.errors import InvalidValue, MagpieError
from edge.settings.machine import old_keys
from edge.settings.outputs import OutputsSettings
from edge.settings.parsing import parse
from edge.settings.site import SiteSettings
from edge.settings.web import TlsSettings

log = logging.getLogger(__name__)


def read_site(path: Path) -> SiteSettings:
    """Read a site configuration. Relative paths inside are taken from the file's folder.

    Raises MagpieError (unreadable, not YAML) or InvalidValues.
    """
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MagpieError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise MagpieError(f"{path}: not a YAML file: {str(error).splitlines()[0]}") from None
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise InvalidValue(str(path), type(value).__name__, "a mapping of settings")
    folder = path.absolute().parent

    def absolute(text: str) -> str:
        text = os.path.expandvars(text)
        return text if not text or "://" in text or os.path.isabs(text) else str(folder / text)

    def file_or_name(text: str) -> str:
        # A bare name is that of a shipped description.
        return absolute(text) if "/" in text or text.endswith((".yaml", ".yml")) or "$" in text else text

    if isinstance(value.get("data_dir"), str):
        value["data_dir"] = absolute(value["data_dir"])
    for key in ("teacher", "student"):
        if isinstance(value.get(key), str):
            value[key] = file_or_name(value[key])
    for camera in value["cameras"] if isinstance(value.get("cameras"), list) else ():
        student = camera.get("student") if isinstance(camera, dict) else None
        if isinstance(student, dict) and isinstance(student.get("model"), str):
            student["model"] = file_or_name(student["model"])
    site = parse(SiteSettings, value)
    if old := old_keys(value):
        log.warning("%s: old keys, still taken; write them in the section `machine`: %s", path, ", ".join(old))
    if site.web.tls is not None:
        tls = TlsSettings(certificate=absolute(site.web.tls.certificate), key=absolute(site.web.tls.key))
        site = site.model_copy(update={"web": site.web.model_copy(update={"tls": tls})})
    if "outputs" in site.model_fields_set:
        mqtt = site.outputs.mqtt
        if mqtt is not None:
            mqtt = mqtt.model_copy(update={"ca_file": absolute(mqtt.ca_file)})
        hooks = tuple(w.model_copy(update={"ca_file": absolute(w.ca_file)}) for w in site.outputs.webhooks)
        site = site.model_copy(update={"outputs": OutputsSettings(mqtt=mqtt, webhooks=hooks)})
    if site.serving is not None:
        tables = tuple(absolute(t) for t in site.serving.tables)
        serving = site.serving.model_copy(update={"folder": absolute(site.serving.folder), "tables": tables})
        site = site.model_copy(update={"serving": serving})
    cameras = []
    for camera in site.cameras:
        student = camera.student.model_copy(update={"weights": absolute(camera.student.weights)})
        cameras.append(camera.model_copy(update={"url": absolute(camera.url), "student": student}))
    return site.model_copy(update={"cameras": tuple(cameras)})
