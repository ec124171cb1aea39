"""The policy ``perdix``: the cheapest plan over the next minutes that stays within the job's error budget.

Belongs here: the course that a load may take, the dynamic programme over it, what lateness may cost, and the policy
that asks them. Does not belong here: forecasts and capacities, which come with the situation.
"""
