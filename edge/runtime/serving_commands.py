"""Clients' commands to the model repository through the front: its index, to load a model, to unload one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from edge.core.errors import InvalidValue, MagpieError, Unavailable
from edge.core.front_messages import Layout, RepositoryAnswer, RepositoryCommand
from edge.core.oip import RepositoryEntry
from edge.runtime.serving_loading import ModelLoader
from edge.runtime.serving_models import OfferedModels
from edge.runtime.serving_status import View, repository_index
from edge.serving.repository import Repository

log = logging.getLogger(__name__)


class RepositoryCommands:
    """`view()` and `layout()` are the plan and the routes in force. `answer(answer)` goes to the front; `changed`
    receives each model that a client loaded or unloaded.
    """

    def __init__(
        self,
        repository: Repository,
        models: OfferedModels,
        loader: ModelLoader,
        view: Callable[[], View],
        layout: Callable[[], Layout | None],
        answer: Callable[[RepositoryAnswer], object],
        changed: Callable[[RepositoryCommand], None],
    ) -> None:
        self._repository, self._models, self._loader = repository, models, loader
        self._view, self._layout, self._answer, self._changed = view, layout, answer, changed

    async def carry_out(self, command: RepositoryCommand) -> None:
        """Do it, and answer: also with an error, since a client waits."""
        answer = RepositoryAnswer(command.number)
        try:
            if command.action == "index":
                answer = replace(answer, index=await self.index())
            elif command.action == "load":
                await self._loader.load(command.model, command.parameters)
            elif command.action == "unload":
                await self._loader.unload(command.model)
            else:
                raise InvalidValue("action", command.action, "index, load or unload")
            if command.action != "index":
                self._changed(command)
        except MagpieError as error:
            answer = replace(answer, error=str(error), code=error.code)
        except Exception:  # a client waits for an answer
            log.exception("%s %s", command.action, command.model)
            words = f"{command.action}: something went wrong inside the server; its log tells more"
            answer = replace(answer, error=words, code=Unavailable.code)
        self._answer(answer)

    async def index(self) -> tuple[RepositoryEntry, ...]:
        """Every version in the repository."""
        entries = await asyncio.to_thread(self._repository.index)
        return repository_index(entries, self._models.offers, self._view(), self._layout())
