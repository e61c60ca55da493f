# cmake -DNVCC= -DVERSION= -DARCHITECTURES= -DINCLUDES= -DSOURCE= -DOUTPUT= -DCACHE= -P SymmFatbin.cmake
#
# Compiles SOURCE into the fat binary OUTPUT, or takes it from CACHE, where it lies under a hash of all that goes into
# it: flags, nvcc's version, and every file that the compiler would read. Writes OUTPUT.d, the list of these files.
set(flags -std=c++17 -Wno-deprecated-gpu-targets)
foreach(architecture ${ARCHITECTURES})
  list(APPEND flags -gencode arch=compute_${architecture},code=sm_${architecture})
endforeach()
if(VERSION VERSION_GREATER_EQUAL 12.8) # an eighth of the bytes of the default
  list(APPEND flags --compress-mode=size)
endif()
set(includes "")
foreach(folder ${INCLUDES})
  list(APPEND includes -I${folder})
endforeach()

execute_process(COMMAND ${NVCC} ${flags} ${includes} -M -MT ${OUTPUT} -MF ${OUTPUT}.d ${SOURCE}
  RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "nvcc -M failed: ${failed}")
endif()
file(READ ${OUTPUT}.d files)
string(REGEX REPLACE "^[^:]*:|\\\\\n" " " files "${files}")
separate_arguments(files UNIX_COMMAND "${files}")
set(key "${VERSION} ${flags}")
foreach(file ${files})
  file(SHA256 ${file} hash)
  string(APPEND key " ${hash}")
endforeach()
string(SHA256 key "${key}")

set(cached ${CACHE}/${key}.fatbin)
if(NOT EXISTS ${cached})
  file(MAKE_DIRECTORY ${CACHE})
  string(RANDOM LENGTH 12 unique)
  execute_process(COMMAND ${NVCC} ${flags} ${includes} -fatbin -o ${cached}.${unique} ${SOURCE} RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "nvcc failed: ${failed}")
  endif()
  file(RENAME ${cached}.${unique} ${cached}) # at once, whoever else compiles the same
endif()
file(COPY_FILE ${cached} ${OUTPUT})
