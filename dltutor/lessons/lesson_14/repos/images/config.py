"""Define the settings for a run of this job."""

SIZE = 24  # pixels on each side of a crop
BATCH = 16
EPOCHS = 6
RAMP = 4  # epochs until augmentation reaches its full strength
SEED = 7
HELD_OUT = 6  # one photo in this many is kept for testing
