"""What happens between rounds: references, ladders, pseudo-priors and settings learnt from the draws so far."""
