# find_package(banyan) defines banyan::banyan, for target_link_libraries.
get_filename_component(_banyan_prefix "${CMAKE_CURRENT_LIST_DIR}" ABSOLUTE)
find_library(BANYAN_LIBRARY banyan HINTS "${_banyan_prefix}/../.." NO_DEFAULT_PATH)
find_path(BANYAN_INCLUDE_DIR banyan/banyan.h HINTS "${_banyan_prefix}/../../../include" "${_banyan_prefix}/../../../../include")
mark_as_advanced(BANYAN_LIBRARY BANYAN_INCLUDE_DIR)
unset(_banyan_prefix)
if(NOT BANYAN_LIBRARY OR NOT BANYAN_INCLUDE_DIR)
  set(banyan_FOUND FALSE)
  set(banyan_NOT_FOUND_MESSAGE "libbanyan.so or banyan/banyan.h is missing beside ${CMAKE_CURRENT_LIST_DIR}")
elseif(NOT TARGET banyan::banyan)
  add_library(banyan::banyan SHARED IMPORTED)
  set_target_properties(banyan::banyan PROPERTIES IMPORTED_LOCATION "${BANYAN_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${BANYAN_INCLUDE_DIR}")
endif()
