# find_package(modelbuild_runtime) defines the target modelbuild::runtime: the library with its C and C++ headers.
get_filename_component(_modelbuild_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET modelbuild::runtime)
  add_library(modelbuild::runtime SHARED IMPORTED)
  set_target_properties(modelbuild::runtime PROPERTIES
    IMPORTED_LOCATION "${_modelbuild_prefix}/lib/libmodelbuild_runtime.so"
    IMPORTED_SONAME libmodelbuild_runtime.so
    INTERFACE_INCLUDE_DIRECTORIES "${_modelbuild_prefix}/include")
  get_property(_modelbuild_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if("CXX" IN_LIST _modelbuild_languages)  # runtime.hpp; a C project uses runtime.h
    set_property(TARGET modelbuild::runtime PROPERTY INTERFACE_COMPILE_FEATURES cxx_std_20)
  endif()
  unset(_modelbuild_languages)
endif()
unset(_modelbuild_prefix)
