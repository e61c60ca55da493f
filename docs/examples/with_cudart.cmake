# example_with_cudart(<target> <source>...): the same example for programs that use cudart. Only where CMake finds a
# CUDA compiler, and not as a part of symm's own build, which needs none.
macro(example_with_cudart target)
  if(PROJECT_IS_TOP_LEVEL)
    include(CheckLanguage)
    check_language(CUDA)
  endif()
  if(PROJECT_IS_TOP_LEVEL AND CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 90a)
    endif()
    enable_language(CUDA)
    add_executable(${target} ${ARGN})
    target_compile_features(${target} PRIVATE cuda_std_17)
    target_include_directories(${target} PRIVATE ..) # try.h, try_cuda.h, numbers.h
    target_link_libraries(${target} PRIVATE symm::symm m)
  endif()
endmacro()
