"""The ``perdix`` command.

Belongs here: arguments, tables, JSON, exit codes. Does not belong here: anything that another program might call.
"""
