"""What a run of this job is made of."""

BATCH = 16
EPOCHS = 5
SHOWN = 1000  # scans that the report shows at most
OPEN_FILES = 128  # that the cluster allows a process
