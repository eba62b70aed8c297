"""What the experiments share: the bench, runs and forks, random generators, walks, memory."""
