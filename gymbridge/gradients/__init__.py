"""Torch's gradients through any functional JAX environment."""
