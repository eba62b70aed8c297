"""What a run of this job is made of."""

SIZE = 24  # pixels of a side, after cutting out
BATCH = 16
EPOCHS = 6
RAMP = 4  # epochs until augmentation is at its full strength
SEED = 7
HELD_OUT = 6  # of so many photos, one is kept for testing
