"""Where model files lie, and how a description names them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from edge.core.errors import InvalidValue

#: The environment variable that names the folder of model files.
FOLDER_VARIABLE: Final = "MAGPIE_MODELS"


def models_folder(environment: Mapping[str, str]) -> Path:
    """The folder of model files: $MAGPIE_MODELS, else $XDG_DATA_HOME/magpie/models, else
    ~/.local/share/magpie/models. Absolute; it need not exist.

    Raises:
        InvalidValue: none is set, and the account has no home.
    """
    given = environment.get(FOLDER_VARIABLE, "")
    if given:
        return Path(given).expanduser().absolute()
    data = environment.get("XDG_DATA_HOME", "")
    if not data.startswith("/"):  # the XDG specification ignores relative ones
        data = str(_home(environment) / ".local" / "share")
    return Path(data) / "magpie" / "models"


def _home(environment: Mapping[str, str]) -> Path:
    home = environment.get("HOME", "")
    try:
        return Path(home) if home else Path.home()
    except RuntimeError:  # an account without a home, as in containers
        raise InvalidValue(FOLDER_VARIABLE, None, "a folder: this account has no home folder") from None


def model_path(field: str, text: str, folder: Path, environment: Mapping[str, str]) -> Path:
    """A file that a description names: relative to the description's `folder`, or beginning with `${NAME}` of the
    environment; `${MAGPIE_MODELS}` is the models folder also where that variable is not set.

    Raises:
        InvalidValue: another variable is not set (`field` is the path of the field).
    """

    def known(match: re.Match[str]) -> str:
        name = match.group(1)
        if name == FOLDER_VARIABLE:
            return str(models_folder(environment))
        value = environment.get(name, "")
        if not value:
            raise InvalidValue(field, text, f"a path; the environment variable {name} is not set")
        return value

    path = Path(re.sub(r"\$\{(\w+)\}", known, text)).expanduser()
    return path if path.is_absolute() else (folder / path).resolve()
