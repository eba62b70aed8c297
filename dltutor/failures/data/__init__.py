"""Make the data that the failure modes load, such as images, records, and captions."""
