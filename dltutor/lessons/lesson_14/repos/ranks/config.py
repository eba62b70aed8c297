"""Define the settings for a run of this job."""

BATCH = 8
EPOCHS = 3
SEED = 3
WINDOW = 32  # numbers that the encoder takes at a time
