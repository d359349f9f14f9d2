"""The check of the model files that a site names, at its start and for `magpie run --check`."""

from __future__ import annotations

import logging

from edge.models.descriptions import Kind, described
from edge.models.missing import require_models
from edge.settings import SiteSettings

log = logging.getLogger(__name__)


def check_models(site: SiteSettings) -> None:
    """Every model file that the site's descriptions name is here and may be used. Reads the files. Raises WeightsError
    (which are missing, and the command that brings them), LicenceRefused, InvalidValue."""
    named: list[tuple[str, Kind]] = [(site.teacher, "teacher"), (site.student, "student")]
    named += [(c.student.model, "student") for c in site.cameras]
    descriptions = list(dict.fromkeys(described(text, kind) for text, kind in named if text))
    for file in require_models(descriptions).undeclared:
        log.warning("%s: nothing says the licence of %s; `licence:` in its description does", file.model, file.path)
