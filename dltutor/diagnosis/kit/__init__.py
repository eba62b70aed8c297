"""What the experiments share: the bench, runs, forks, walks, and what they look at."""
