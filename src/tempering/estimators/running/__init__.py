"""Running sums over the draws of every rung, and what can be answered from them."""
