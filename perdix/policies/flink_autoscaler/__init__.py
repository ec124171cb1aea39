"""The rule of the Flink Autoscaler, in our own words: the strongest open-source rival, and a baseline.

Belongs here: the rule per vertex of a job graph, its state, and the policy that applies it to a job as a whole. Does
not belong here: what the original does beside deciding (memory tuning, quotas, excluded periods, events).

Sources: FLIP-271, and the behaviour of apache/flink-kubernetes-operator 1.16-SNAPSHOT (2026-07) that its tests state.

Numbers that are not known are NaN, and an infinite rate means that nothing arrived to measure it by; neither is an
error.
"""
