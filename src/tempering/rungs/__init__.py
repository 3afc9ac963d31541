"""How rungs change: simulated tempering and Metropolis-coupled chains."""
