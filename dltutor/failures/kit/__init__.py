"""What the failure modes have in common: their contract, their signs, their gauge."""
