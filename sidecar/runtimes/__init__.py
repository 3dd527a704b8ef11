"""What each runtime's native metrics mean: mapping as data, and only where data can't say it, an adapter."""
