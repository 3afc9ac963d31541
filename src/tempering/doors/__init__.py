"""Ways in and out: other packages' models and draws, converted at the edge and imported when called."""
