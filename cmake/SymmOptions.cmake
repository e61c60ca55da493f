# symm_options: an interface target with the flags that all of symm's own code is compiled with.
add_library(symm_options INTERFACE)
target_compile_definitions(symm_options INTERFACE _GNU_SOURCE SYMM_MULTICAST=$<BOOL:${SYMM_MULTICAST}>)
target_compile_options(symm_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>
  $<$<BOOL:${SYMM_WERROR}>:-Werror>)
target_include_directories(symm_options INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)

# Sanitizers go into everything, kernels and examples included.
if(SYMM_SANITIZE)
  add_compile_options(-fsanitize=${SYMM_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${SYMM_SANITIZE})
endif()
