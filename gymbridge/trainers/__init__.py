"""Views of the batches for trainers that expect another interface than Gymnasium's."""

__all__: list[str] = []
