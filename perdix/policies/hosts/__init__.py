"""Policies that lease hosts and place the containers of operators on them: a situation in, actions out, and why.

Belongs here: rules that look at hosts (Hochreiner et al., PeerJ CS 2018). Does not belong here: what a lease costs
(:mod:`perdix.models.billing`), and rules that size a job of equal workers (:mod:`perdix.policies`).
"""
