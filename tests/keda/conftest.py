from tests.keda.client import keda

__all__ = ["keda"]
