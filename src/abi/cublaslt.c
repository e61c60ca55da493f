/* Opens cuBLASLt and runs products on it. */
#include "cublaslt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Returns whether a call succeeded; if not, writes the reason. */
static bool ok(const char *call, int error, char why[CUBLASLT_WHY])
{
    if (error)
        snprintf(why, CUBLASLT_WHY, "%s: error %d", call, error);
    return !error;
}

/* -------------------------------------------------------------------------------------- opening */

static void *load(const char *path, char why[CUBLASLT_WHY])
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
    const bool named = path && *path;
    void *library = named ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;

    for (size_t i = 0; !named && !library && i < sizeof names / sizeof names[0]; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        snprintf(why, CUBLASLT_WHY, "%s", dlerror());
    return library;
}

static bool look_up(void *library, struct cublaslt *out, char why[CUBLASLT_WHY])
{
    const struct {
        const char *name;
        void *slot;
    } functions[] = {
#define CUBLASLT_ROW_(field, name, type, params) {#name, &out->field},
        CUBLASLT_FUNCTIONS(CUBLASLT_ROW_)
#undef CUBLASLT_ROW_
    };

    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *function = dlsym(library, functions[i].name);
        if (!function) {
            snprintf(why, CUBLASLT_WHY, "the library has no %s", functions[i].name);
            return false;
        }
        memcpy(functions[i].slot, &function, sizeof function);
    }
    return true;
}

bool symm__cublaslt_open(const char *path, struct cublaslt *out, char why[CUBLASLT_WHY])
{
    void *library = load(path, why);

    *out = (struct cublaslt){.handle = NULL};
    if (!library || !look_up(library, out, why))
        return false;
    const size_t version = out->get_version();
    snprintf(out->version, sizeof out->version, "%zu.%zu.%zu", version / 10000, version / 100 % 100,
             version % 100);
    return ok("cublasLtCreate", out->create(&out->handle), why);
}

void symm__cublaslt_close(struct cublaslt *lt)
{
    if (lt->handle)
        lt->destroy(lt->handle);
    lt->handle = NULL;
}

/* ------------------------------------------------------------------------------------- products */

static bool set_transposed(const struct cublaslt *lt, cublaslt_operation operation, int attribute,
                           bool transposed, char why[CUBLASLT_WHY])
{
    const int32_t value = transposed;

    return ok("cublasLtMatmulDescSetAttribute",
              lt->operation_set(operation, attribute, &value, sizeof value), why);
}

static bool make_layout(const struct cublaslt *lt, const struct cublaslt_matrix *x, int32_t batches,
                        cublaslt_layout *out, char why[CUBLASLT_WHY])
{
    return ok("cublasLtMatrixLayoutCreate",
              lt->layout_create(out, x->type, x->rows, x->columns, x->ld), why) &&
           ok("cublasLtMatrixLayoutSetAttribute",
              lt->layout_set(*out, CUBLASLT_LAYOUT_BATCH_COUNT, &batches, sizeof batches), why) &&
           ok("cublasLtMatrixLayoutSetAttribute",
              lt->layout_set(*out, CUBLASLT_LAYOUT_STRIDED_BATCH_OFFSET, &x->batch,
                             sizeof x->batch),
              why);
}

static bool describe(const struct cublaslt *lt, const struct cublaslt_shape *s,
                     struct cublaslt_product *out, char why[CUBLASLT_WHY])
{
    return ok("cublasLtMatmulDescCreate",
              lt->operation_create(&out->operation, CUBLASLT_COMPUTE_32F, CUBLASLT_TYPE_32F),
              why) &&
           set_transposed(lt, out->operation, CUBLASLT_OPERATION_TRANSPOSE_A, s->a.transposed,
                          why) &&
           set_transposed(lt, out->operation, CUBLASLT_OPERATION_TRANSPOSE_B, s->b.transposed,
                          why) &&
           make_layout(lt, &s->a, s->batches, &out->a, why) &&
           make_layout(lt, &s->b, s->batches, &out->b, why) &&
           make_layout(lt, &s->d, s->batches, &out->d, why);
}

/* If k is split, partial sums are also added in fp32. */
static bool prefer(const struct cublaslt *lt, cublaslt_preference preference,
                   const struct cublaslt_shape *s, char why[CUBLASLT_WHY])
{
    static const char call[] = "cublasLtMatmulPreferenceSetAttribute";
    const uint32_t reductions = CUBLASLT_REDUCTION_COMPUTE_TYPE;
    bool done = ok(call,
                   lt->preference_set(preference, CUBLASLT_PREFERENCE_MAX_WORKSPACE_BYTES,
                                      &s->workspace_nbytes, sizeof s->workspace_nbytes),
                   why) &&
                ok(call,
                   lt->preference_set(preference, CUBLASLT_PREFERENCE_REDUCTION_SCHEME_MASK,
                                      &reductions, sizeof reductions),
                   why);

    for (int i = 0; i < 4 && done; i++)
        done = ok(call,
                  lt->preference_set(preference, CUBLASLT_PREFERENCE_MIN_ALIGNMENT_A_BYTES + i,
                                     &s->alignment, sizeof s->alignment),
                  why);
    return done;
}

int symm__cublaslt_algorithms(const struct cublaslt *lt, const struct cublaslt_shape *shape,
                              const struct cublaslt_product *product, cublaslt_heuristic *out,
                              int most, char why[CUBLASLT_WHY])
{
    cublaslt_preference preference = NULL;
    int found = 0, usable = 0;
    const bool done =
        ok("cublasLtMatmulPreferenceCreate", lt->preference_create(&preference), why) &&
        prefer(lt, preference, shape, why) &&
        ok("cublasLtMatmulAlgoGetHeuristic",
           lt->heuristic(lt->handle, product->operation, product->a, product->b, product->d,
                         product->d, preference, most, out, &found),
           why);

    if (preference)
        lt->preference_destroy(preference);
    for (int i = 0; i < found && done; i++)
        if (out[i].state == 0)
            out[usable++] = out[i];
    return done ? usable : -1;
}

/* Takes the first algorithm. */
static bool choose(const struct cublaslt *lt, const struct cublaslt_shape *s,
                   struct cublaslt_product *out, char why[CUBLASLT_WHY])
{
    const int found = symm__cublaslt_algorithms(lt, s, out, &out->chosen, 1, why);

    if (found == 0)
        snprintf(why, CUBLASLT_WHY, "cublasLtMatmulAlgoGetHeuristic: no algorithm");
    return found == 1;
}

bool symm__cublaslt_product(const struct cublaslt *lt, const struct cublaslt_shape *shape,
                            struct cublaslt_product *out, char why[CUBLASLT_WHY])
{
    *out = (struct cublaslt_product){.operation = NULL};
    if (describe(lt, shape, out, why) && choose(lt, shape, out, why))
        return true;
    symm__cublaslt_forget(lt, out);
    return false;
}

void symm__cublaslt_forget(const struct cublaslt *lt, struct cublaslt_product *product)
{
    const cublaslt_layout layouts[] = {product->a, product->b, product->d};

    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (layouts[i])
            lt->layout_destroy(layouts[i]);
    if (product->operation)
        lt->operation_destroy(product->operation);
    *product = (struct cublaslt_product){.operation = NULL};
}

bool symm__cublaslt_multiply(const struct cublaslt *lt, const struct cublaslt_product *product,
                             const struct cublaslt_operands *on, cublaslt_stream stream,
                             char why[CUBLASLT_WHY])
{
    return ok("cublasLtMatmul",
              lt->matmul(lt->handle, product->operation, &on->alpha, on->a, product->a, on->b,
                         product->b, &on->beta, on->c ? on->c : on->d, product->d, on->d,
                         product->d, &product->chosen.algorithm, on->workspace,
                         product->chosen.workspace_nbytes, stream),
              why);
}
