"""VISP for a job of equal workers on leased hosts (PeerJ CS 2018)."""
