"""The test suite mirrors `src/richter`."""
