"""Questions asked of draws: the evidence, the tours between regenerations, and a verdict in words."""
