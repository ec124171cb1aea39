"""The twin of a topology in containers on leased hosts (Hochreiner et al., PeerJ CS 2018): VISP's testbed.

Belongs here: virtual machines, containers and their starts, operators with queues, sensors. Does not belong here: what
leases hosts and places containers (:mod:`perdix.policies.hosts`), and what comes of it (:mod:`perdix.replay`).
"""
