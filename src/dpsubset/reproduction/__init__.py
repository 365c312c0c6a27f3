"""The paper's figures, drawn again from settings (`figures.toml`), with our mechanisms beside."""

from dpsubset.reproduction.settings import Figure, Method, Panel, Settings, settings

__all__ = ["Figure", "Method", "Panel", "Settings", "settings"]
