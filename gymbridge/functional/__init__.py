"""Batches of functional JAX environments, of any engine, and how they are compiled."""
