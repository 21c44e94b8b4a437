"""Print the folder of the C++ runtime, for CMAKE_PREFIX_PATH."""

from modelbuild_runtime_native import folder

print(folder())
