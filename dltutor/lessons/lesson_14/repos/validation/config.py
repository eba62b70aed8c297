"""Define the settings for a run of this job."""

BATCH = 16
EPOCHS = 5
SHOWN = 1000  # the most scans that the report shows
OPEN_FILES = 128  # the most files that a process may have open on the cluster
