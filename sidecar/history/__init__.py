"""The history of operations: the last dumps and verifications of a changefeed, for operators. `entry`: one operation, bounded; `recorder`:
when the entries of dumps change. Pure: where entries are kept is the port `OperationHistory`.
"""
