"""Running actions: keys, the scheduler, and executors behind one interface."""
