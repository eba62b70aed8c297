"""What the failure modes have in common: what each supplies, how it shows, how memory is read."""
