"""Advice: where a network stands, what to change, and what that will do."""
