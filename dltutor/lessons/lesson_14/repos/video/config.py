"""What a run of this job is made of."""

BATCH = 4
EPOCHS = 2
KINDS = 4
