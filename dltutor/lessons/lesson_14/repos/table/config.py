"""What a run of this job is made of."""

CUSTOMERS = 64
BATCH = 4
EPOCHS = 3
RECENT = 16  # rows that a process keeps at hand
