"""``perdix profile``: a stream job deployed side by side at rising rates, and its latency model trained."""
