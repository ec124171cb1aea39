"""What is decided: one module per published system or baseline; pure functions.

Belongs here: rules from a situation to a decision. Does not belong here: I/O of any kind, clocks, state that a
function keeps between calls (what a policy must remember comes in with the situation and goes out with the decision).
"""
