"""Define the settings for a run of this job."""

CUSTOMERS = 64
BATCH = 4
EPOCHS = 3
RECENT = 16  # the most rows that a process keeps in memory
