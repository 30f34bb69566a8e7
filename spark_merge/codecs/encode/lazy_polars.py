"""polars, loaded when many rows are written at once: 18 MB and 0.1 s that a process does not need which opens sinks, or writes a row now
and then. In the place of `import polars as pl`, where nothing of it is used while the module itself is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl
else:

    class _Polars:
        def __getattr__(self, name: str) -> Any:
            import polars

            value = self.__dict__[name] = getattr(polars, name)
            return value

    pl = _Polars()

__all__ = ["pl"]
