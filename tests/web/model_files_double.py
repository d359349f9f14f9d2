"""The known model files of the web tests' appliance."""

from __future__ import annotations

from pydantic import TypeAdapter

from edge.appliance.model_files import KnownFiles
from web.examples.catalogue import CATALOGUE


class TupleModelFiles:
    """Implements `ModelFilesService` with the example's values, built of the real types."""

    def known(self) -> KnownFiles:
        return TypeAdapter(KnownFiles).validate_python(CATALOGUE)
