"""The login of the source, from the sidecar's settings."""

from __future__ import annotations

import math
import ssl
from dataclasses import dataclass

from sidecar.shared.config import SourceSection, Tls
from sidecar.shared.config_files import read_secret
from sidecar.shared.errors import ConfigError
from sidecar.shared.mysql.session import Login

CONNECT_TIMEOUT_S = 10.0
ANSWER_GRACE_S = 10.0
"""The server ends a statement on its own; so much later it counts as lost."""


@dataclass(frozen=True, slots=True)
class Account:
    """`session.MysqlServer`. Read once: the password's file may go away. `answer_max_s`: for a caller that waits less than a statement may
    take."""

    host: str
    port: int
    user: str
    password: str
    tls: Tls
    statement_timeout_s: float
    retry_s: float
    answer_max_s: float = math.inf

    @classmethod
    def of(cls, settings: SourceSection) -> Account:
        """Raises ConfigError if the password's file cannot be read."""
        return cls(
            host=settings.host,
            port=settings.port,
            user=settings.user,
            password=read_secret(settings.password_file),
            tls=settings.tls,
            statement_timeout_s=settings.statement_timeout_s,
            retry_s=settings.retry_s,
        )

    @property
    def statement_s(self) -> float:
        return self.statement_timeout_s

    def login(self) -> Login:
        """Raises ConfigError for files of source.tls that cannot be used."""
        answer_s = min(self.statement_timeout_s + ANSWER_GRACE_S, self.answer_max_s)
        connect_s = min(CONNECT_TIMEOUT_S, answer_s)
        return Login(self.host, self.port, self.user, self.password, self._tls(), connect_s, answer_s, answer_s)

    def _tls(self) -> ssl.SSLContext | None:
        if not self.tls.ca_file:
            return None
        try:
            context = ssl.create_default_context(cafile=self.tls.ca_file)
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # certificates that TiDB makes itself lack extensions that it requires
            if self.tls.cert_file:
                context.load_cert_chain(self.tls.cert_file, self.tls.key_file or None)
        except OSError as error:
            raise ConfigError(
                f"source.tls cannot be used: {error}", hint="check the paths of source.tls and that this user may read them"
            ) from error
        return context

    def __str__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"
