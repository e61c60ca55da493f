/*
 * symm/names.h - the library's version, and the names of element types, reductions, algorithms and
 * strategies, as texts, tuning files and the tools use them.
 *
 * All functions are Local and need no context; any thread may call them at any time.
 */
#ifndef SYMM_NAMES_H
#define SYMM_NAMES_H

#include <symm/collectives.h>
#include <symm/matmul.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The version of the library in use. SYMM_VERSION is that of the headers; a program may compare the
 * two. symm_context_create() refuses headers of another minor version.
 */
SYMM_API int symm_version(void);

/* The bytes of one element; 0 if dtype is not in the enum. */
SYMM_API size_t symm_dtype_size(symm_dtype dtype);

/*
 * "bfloat16", "sum", "two_shot", "fused"; NULL if the value is not in the enum. The texts live as
 * long as the library.
 */
SYMM_API const char *symm_dtype_name(symm_dtype dtype);
SYMM_API const char *symm_redop_name(symm_redop op);
SYMM_API const char *symm_algo_name(symm_algo algo);
SYMM_API const char *symm_strategy_name(symm_strategy strategy);

/*
 * The value with this name. Element types have a short name too: "bf16" is "bfloat16".
 *
 * Errors: ERROR_ARGUMENT  text or out is NULL, or text is no name: the text lists the names
 */
SYMM_API symm_status symm_dtype_parse(const char *text, symm_dtype *out);
SYMM_API symm_status symm_redop_parse(const char *text, symm_redop *out);
SYMM_API symm_status symm_algo_parse(const char *text, symm_algo *out);
SYMM_API symm_status symm_strategy_parse(const char *text, symm_strategy *out);

#ifdef __cplusplus
}
#endif

#endif
