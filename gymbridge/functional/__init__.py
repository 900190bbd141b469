"""Functional JAX environments, whoever wrote them: their batch and how it is compiled."""
