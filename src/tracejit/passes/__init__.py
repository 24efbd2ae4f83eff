"""Passes: graph to graph, each one function in one file; `passes.pipeline` puts them in order."""
