"""Record memory over time: a helper process that samples, its reader, and the Timeline."""
