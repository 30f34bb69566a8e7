"""In which partition TiDB keeps a row: `clause` reads what a table was made with, `value` evaluates its expression, `ids` locates rows."""
