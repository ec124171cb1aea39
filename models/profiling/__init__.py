"""What a profile says: measured latency and highest rate of each scale-out (Phoebe, 3.3). Pure: nothing is run here."""
