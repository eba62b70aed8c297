"""What objects hold, where it is reached from, and what it contains."""
