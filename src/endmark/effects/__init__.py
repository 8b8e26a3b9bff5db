"""Changes that go out into the world, each with its receipt in the same write."""
