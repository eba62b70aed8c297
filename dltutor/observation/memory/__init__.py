"""Record memory over time with a helper process, and turn the record into a Timeline."""
