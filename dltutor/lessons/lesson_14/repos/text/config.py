"""What a run of this job is made of."""

CONTEXT = 32  # tokens that the model reads
BATCH = 16
VOCABULARY = 96
RATE = 0.2
SEED = 3
