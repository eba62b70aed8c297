"""Define the settings for a run of this job."""

CONTEXT = 32  # tokens that the model reads
BATCH = 16
VOCABULARY = 96
RATE = 0.2
SEED = 3
