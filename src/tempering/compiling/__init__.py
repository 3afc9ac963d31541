"""How functions become machine code: Numba for the scalar engine, XLA for the vector engine."""
