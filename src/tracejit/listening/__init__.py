"""Listeners: who is told of functions and operators that are called, and what they are told."""
