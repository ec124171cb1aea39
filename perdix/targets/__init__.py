"""What is scaled: each target reads and sets a scale-out.

Belongs here: one module per kind of target, and the contract. Does not belong here: why it is scaled (``policies``).
"""
