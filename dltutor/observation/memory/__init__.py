"""Record memory over time with a helper process, and hold the record in a Timeline."""
