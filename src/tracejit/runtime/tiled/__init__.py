"""Steps and loops that go through a range tile by tile."""
