"""The version of the package, which snapshots carry, too."""

__all__ = ["__version__"]

__version__ = "0.1.0"
