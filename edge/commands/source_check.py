"""The check of applications whose source is a camera, for `magpie run --check`."""

from __future__ import annotations

from pathlib import Path

from edge.core.errors import InvalidValue, InvalidValues
from edge.runtime.serving_sources import check_source
from edge.serving.repository import Repository
from edge.settings import SiteSettings


def check_sources(site: SiteSettings) -> None:
    """Every application of the site's model repository is described well, and its camera is one of the site's with the
    classes that it names. Where the site has a database already cameras may have been added there: then one that the
    file does not have is no mistake. Raises InvalidValue(s) with the file and the field."""
    if site.serving is None or not Path(site.serving.folder).is_dir():
        return
    repository = Repository(Path(site.serving.folder))
    cameras = {c.id: c.classes for c in site.cameras}
    elsewhere = bool(site.database_url) or (Path(site.data_dir) / "magpie.db").exists()
    for name in repository.names():
        if not repository.is_application(name) or (site.serving.load is not None and name not in site.serving.load):
            continue
        at = f"{site.serving.folder}/{name}/model.yaml"
        try:
            source = repository.application(name).source
            if source is None or (elsewhere and source.camera not in cameras):
                continue
            check_source(source, cameras)
        except InvalidValues as error:
            problems = [InvalidValue(f"{at}: {p.path}", p.given, p.allowed) for p in error.problems]
            raise InvalidValues(problems) from None
        except InvalidValue as error:
            raise InvalidValue(f"{at}: {error.path}", error.given, error.allowed) from None
