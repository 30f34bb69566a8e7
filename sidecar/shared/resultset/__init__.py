"""Rows of a server that speaks MySQL's protocol as canonical text in Arrow columns: for the source's reader and for the SQL sink's.

selects   the expressions that a SELECT asks for, and what is spelt again of their texts
packets   the server's packets to text columns
"""
