"""Experiments: problems × agents as data, run anywhere, kept on disk."""
