"""What is kept while a run goes on: draws, or sums whose size does not depend on its length."""
