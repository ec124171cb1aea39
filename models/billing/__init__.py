"""What leased hosts cost: started billing time units, workers packed onto hosts, and the bill of a replay. Pure."""
