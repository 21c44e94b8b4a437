"""The checks of `modelbuild doctor`."""
