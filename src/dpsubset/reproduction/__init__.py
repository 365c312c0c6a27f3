"""The paper's figures, drawn again from settings (`figures.toml`), our mechanisms alongside."""

from dpsubset.reproduction.settings import Figure, Method, Panel, Settings, settings

__all__ = ["Figure", "Method", "Panel", "Settings", "settings"]
