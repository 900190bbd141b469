"""Any JAX environment, as two pure functions."""
