"""pyiceberg's REST catalog, with a timeout for its requests: pyiceberg sets none, and waits for ever for a catalog that does not answer."""

from __future__ import annotations

from functools import partial

from pyiceberg.catalog import AVAILABLE_CATALOGS, Catalog, CatalogType
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.typedef import Properties
from requests import Session

CONNECT_S, ANSWER_S = 10.0, 60.0
"""An answer to a commit comes when the catalog has written the table's metadata, which may be large."""


class PatientNoMore(RestCatalog):
    def _config_headers(self, session: Session) -> None:
        """The first that is done with a session, before it asks for a token."""
        session.request = partial(session.request, timeout=(CONNECT_S, ANSWER_S))  # type: ignore[method-assign]  # adapters differ, this is one
        super()._config_headers(session)


def use_it() -> None:
    """Wherever pyiceberg makes a REST catalog, by whatever configuration."""
    AVAILABLE_CATALOGS[CatalogType.REST] = _load


def _load(name: str, properties: Properties) -> Catalog:
    return PatientNoMore(name, **properties)
