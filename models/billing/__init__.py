"""What leased hosts cost: started billing time units, workers packed onto hosts, and the bill of a course of workers.

Pure. Belongs here: how many hosts carry which workers (``packing``, ``demand``), which hosts are leased when
(``leases``), and what is paid for them (``bill``, ``quote``). Does not belong here: prices themselves
(:mod:`perdix.settings.prices`), and rules that decide what to lease (:mod:`perdix.policies.hosts`).
"""
