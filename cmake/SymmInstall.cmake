# Installs libraries, headers, tools, a CMake package, a pkg-config file and documents.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS symm EXPORT symmTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
# Found at run time beside libsymm.so; nobody links with it.
install(TARGETS symm_emulated LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# For LD_PRELOAD, and, in a folder that no loader searches, in NCCL's place.
install(TARGETS symm_nccl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS symm_nccl_replacement LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/nccl NAMELINK_SKIP)
install(DIRECTORY include/symm DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/symm)
install(EXPORT symmTargets NAMESPACE symm:: DESTINATION ${package})
configure_package_config_file(cmake/symmConfig.cmake.in ${PROJECT_BINARY_DIR}/symmConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/symmConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/symmConfig.cmake ${PROJECT_BINARY_DIR}/symmConfigVersion.cmake
  cmake/SymmAddKernels.cmake cmake/SymmFatbin.cmake DESTINATION ${package})
# Relative to itself, so that `cmake --install --prefix` may put it anywhere.
file(RELATIVE_PATH pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
get_property(kernel_cflags GLOBAL PROPERTY SYMM_KERNEL_FLAGS)
list(APPEND kernel_cflags -Wno-unknown-pragmas -Wno-pass-failed) # as symm_add_kernels() does
list(JOIN kernel_cflags " " kernel_cflags)
configure_file(cmake/symm.pc.in ${PROJECT_BINARY_DIR}/symm.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/symm.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
# docs stays a folder below, so that the links between the documents hold.
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/symm)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/symm PATTERN site EXCLUDE)
# Documents link to include/symm, which is elsewhere when installed.
file(RELATIVE_PATH headers ${CMAKE_INSTALL_FULL_DATADIR}/doc/symm/include ${CMAKE_INSTALL_FULL_INCLUDEDIR}/symm)
install(CODE "
  set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/doc/symm/include\")
  file(MAKE_DIRECTORY \"\${folder}\")
  file(CREATE_LINK ${headers} \"\${folder}/symm\" SYMBOLIC)")
