"""Define the settings for a run of this job."""

BATCH = 4
EPOCHS = 2
KINDS = 4
