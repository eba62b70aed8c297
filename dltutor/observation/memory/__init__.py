"""Memory over time: the helper process that samples, its readers, and the Timeline they make."""
