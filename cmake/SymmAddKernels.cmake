# symm_add_kernels(<target> <file.cu>...)
# symm_add_kernels(<target> IMAGE <name> SOURCES <file.cu>...)
#
# Compiles kernels for GPUs and for the emulated driver and adds them to <target> as one image, which the program
# declares as `extern const symm_image <name>;` and gives to symm_kernel_load(). Without IMAGE the name is the first
# file's, without its ending, and "_kernels": fused.cu becomes fused_kernels.
#
#   find_package(symm REQUIRED)
#   add_executable(norm main.c)
#   target_link_libraries(norm PRIVATE symm::symm)
#   symm_add_kernels(norm fused.cu) # extern const symm_image fused_kernels;
#
# The files become one translation unit, which sees the include directories of <target>, and each kernel in them is one
# SYMM_KERNEL() of symm/device.cuh. Works inside symm and, after find_package(symm), outside, in projects of C, of C++
# and of both. The language CUDA is not needed: without nvcc the kernels run on the emulated driver only.
#
#   SYMM_CUDA                AUTO (GPU code if nvcc >= 12.4 is found), ON (or fail), OFF (emulation only)
#   SYMM_CUDA_ARCHITECTURES  of the GPU code, without sm_: "80;90a"; empty: those of this machine's GPUs, else 90a
#   SYMM_FATBIN_CACHE        folder of compiled GPU code, keyed by content: build trees share it

# Of kernels for the emulated driver; symm.pc names them, too.
set_property(GLOBAL PROPERTY SYMM_KERNEL_FLAGS -x c++ -std=c++17 -O2 -fno-exceptions -fno-rtti
  -fno-threadsafe-statics -fno-math-errno -fno-strict-aliasing -ffp-contract=off)

# Sets SYMM_NVCC and SYMM_NVCC_VERSION if an nvcc is new enough; otherwise clears SYMM_NVCC.
function(symm_find_nvcc)
  if(DEFINED SYMM_CUDA AND NOT SYMM_CUDA AND NOT SYMM_CUDA STREQUAL "AUTO")
    set(SYMM_NVCC "" PARENT_SCOPE)
    return()
  endif()
  file(GLOB wheels ${CMAKE_SOURCE_DIR}/.cuda/nvidia/*/bin
    ${CMAKE_SOURCE_DIR}/.cuda/lib/python*/site-packages/nvidia/*/bin)
  find_program(SYMM_NVCC nvcc
    HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin ${CUDAToolkit_ROOT}/bin ${CMAKE_SOURCE_DIR}/.cuda/bin ${wheels}
    PATHS /usr/local/cuda/bin
    DOC "CUDA compiler for symm's kernels")
  set(why "no nvcc found")
  if(SYMM_NVCC)
    execute_process(COMMAND ${SYMM_NVCC} --version OUTPUT_VARIABLE text ERROR_QUIET)
    string(REGEX MATCH "V([0-9.]+)" version "${text}")
    set(version ${CMAKE_MATCH_1})
    if(version VERSION_GREATER_EQUAL 12.4)
      set(SYMM_NVCC_VERSION ${version} PARENT_SCOPE)
      return()
    endif()
    set(why "${SYMM_NVCC} is version \"${version}\", older than 12.4")
  endif()
  if(SYMM_CUDA AND NOT SYMM_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "symm: SYMM_CUDA is ${SYMM_CUDA}, but ${why}")
  endif()
  get_property(said GLOBAL PROPERTY SYMM_SAID_NO_NVCC)
  if(NOT said)
    message(STATUS "symm: ${why}: kernels for the emulated driver only")
    set_property(GLOBAL PROPERTY SYMM_SAID_NO_NVCC TRUE)
  endif()
  set(SYMM_NVCC "" PARENT_SCOPE)
endfunction()

# Sets `out` to SYMM_CUDA_ARCHITECTURES, else to the architectures of this machine's GPUs, else to 90a; says which.
function(symm_find_architectures out)
  set(${out} ${SYMM_CUDA_ARCHITECTURES} PARENT_SCOPE)
  if(SYMM_CUDA_ARCHITECTURES)
    return()
  endif()
  get_property(found GLOBAL PROPERTY SYMM_FOUND_ARCHITECTURES)
  if(NOT found)
    set(why "of this machine's GPUs")
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE text ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed)
      string(REGEX MATCHALL "[0-9]+[.][0-9]" found "${text}")
      list(TRANSFORM found REPLACE "[.]" "")
      list(TRANSFORM found REPLACE "^90$" "90a")
      list(REMOVE_DUPLICATES found)
    endif()
    if(NOT found)
      set(found 90a)
      set(why "since this machine shows no GPU")
    endif()
    message(STATUS "symm: GPU code for ${found}, ${why}; SYMM_CUDA_ARCHITECTURES chooses others")
    set_property(GLOBAL PROPERTY SYMM_FOUND_ARCHITECTURES ${found})
  endif()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

function(symm_add_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "IMAGE" "SOURCES")
  set(sources ${arg_UNPARSED_ARGUMENTS} ${arg_SOURCES})
  if(NOT sources OR (arg_UNPARSED_ARGUMENTS AND arg_SOURCES) OR arg_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "symm_add_kernels(${ARGV}): the usage is symm_add_kernels(<target> <file.cu>...) or "
      "symm_add_kernels(<target> IMAGE <name> SOURCES <file.cu>...)")
  endif()
  if(NOT TARGET ${target})
    message(FATAL_ERROR "symm_add_kernels: there is no target ${target}; the target comes first, then the files")
  endif()
  if(NOT arg_IMAGE)
    list(GET sources 0 first)
    cmake_path(GET first STEM LAST_ONLY arg_IMAGE)
    string(MAKE_C_IDENTIFIER ${arg_IMAGE}_kernels arg_IMAGE)
  endif()
  if(NOT arg_IMAGE MATCHES "^[A-Za-z_][A-Za-z0-9_]*$")
    message(FATAL_ERROR "symm_add_kernels: the image is to be called ${arg_IMAGE}, which is no identifier of C")
  endif()
  set(kernels ${target}_${arg_IMAGE}) # the target that compiles the kernels
  if(TARGET ${kernels})
    message(FATAL_ERROR "symm_add_kernels: ${target} has an image ${arg_IMAGE} already: call one of them IMAGE <name>")
  endif()
  if(CMAKE_C_COMPILER_LOADED) # in this folder: a subproject's languages are its own
    set(ending c)
  elseif(CMAKE_CXX_COMPILER_LOADED)
    set(ending cc)
  else()
    message(FATAL_ERROR "symm_add_kernels: the project has neither the language C nor CXX")
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/symm_kernels/${target})
  set(unit ${folder}/${arg_IMAGE}_unit)
  set(image ${folder}/${arg_IMAGE}.${ending})
  set(includes $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
  set(lines "")
  foreach(source ${sources})
    get_filename_component(source ${source} ABSOLUTE)
    get_property(generated SOURCE ${source} PROPERTY GENERATED)
    if(NOT EXISTS ${source} AND NOT generated)
      message(FATAL_ERROR "symm_add_kernels: there is no file ${source}")
    endif()
    string(APPEND lines "#include \"${source}\"\n")
  endforeach()

  # For the emulated driver. The C compiler compiles the unit as C++, so that CMake links no C++ runtime: none is
  # needed. Always optimised, since tests spend most of their time in kernels.
  file(GENERATE OUTPUT ${unit}.${ending} CONTENT "#define SYMM_IMAGE ${arg_IMAGE}\n${lines}SYMM_EMULATED_MODULE\n")
  get_property(flags GLOBAL PROPERTY SYMM_KERNEL_FLAGS)
  if(SYMM_SANITIZE) # with -O2 -g, a compilation takes three times as long
    list(APPEND flags -O1 -g1)
  endif()
  set(warnings "")
  if(SYMM_WERROR)
    set(warnings -Wall -Wextra -Wshadow -Werror)
  endif()
  set_source_files_properties(${unit}.${ending} PROPERTIES COMPILE_OPTIONS
    "${flags};${warnings};-Wno-unknown-pragmas;-Wno-pass-failed")

  # For GPUs.
  symm_find_nvcc()
  set(fatbin "")
  if(SYMM_NVCC)
    set(fatbin ${unit}.fatbin)
    file(GENERATE OUTPUT ${unit}.cu CONTENT "${lines}")
    symm_find_architectures(architectures)
    set(cache ${SYMM_FATBIN_CACHE})
    if(NOT cache)
      set(cache ${CMAKE_BINARY_DIR}/fatbin)
    endif()
    set(script ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/SymmFatbin.cmake)
    add_custom_command(OUTPUT ${fatbin}
      COMMAND ${CMAKE_COMMAND} "-DNVCC=${SYMM_NVCC}" "-DVERSION=${SYMM_NVCC_VERSION}" "-DARCHITECTURES=${architectures}"
              "-DINCLUDES=${includes}" "-DSOURCE=${unit}.cu" "-DOUTPUT=${fatbin}" "-DCACHE=${cache}"
              -P ${script}
      DEPENDS ${unit}.cu ${script}
      DEPFILE ${fatbin}.d
      COMMENT "GPU code of ${arg_IMAGE}" VERBATIM)
    set_source_files_properties(${image} PROPERTIES OBJECT_DEPENDS ${fatbin})
  endif()

  # The image.
  if(fatbin)
    set(definition "SYMM_DEFINE_IMAGE_WITH(${arg_IMAGE}, \"${fatbin}\")")
  else()
    set(definition "SYMM_DEFINE_IMAGE(${arg_IMAGE})")
  endif()
  file(GENERATE OUTPUT ${image} CONTENT "#include <symm/detail/image.h>\n\n${definition}\n")

  add_library(${kernels} OBJECT ${unit}.${ending} ${image})
  # Clears the C standard, whose flag would go to the C++ unit, too.
  set_property(TARGET ${kernels} PROPERTY C_STANDARD)
  set_property(TARGET ${kernels} PROPERTY CXX_STANDARD)
  set_target_properties(${kernels} PROPERTIES C_EXTENSIONS ON POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden
    CXX_VISIBILITY_PRESET hidden)
  target_include_directories(${kernels} PRIVATE ${includes})
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${kernels}>)
endfunction()
