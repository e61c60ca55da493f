/*
 * The library's own kernels, in images by subject. Each image has a list of kernels, such as
 * signal.def. This header makes ids and names of the lists. A context loads the images of calls,
 * and the image of multicast if it may use multicast. The first product loads the images of
 * products, and the first traced one those of traces: the same kernels, which record what they do.
 */
#ifndef SYMM_KERNEL_H
#define SYMM_KERNEL_H

#include "context.h"

struct symm_image;

/* The images, and the set of each: image NAME is symm__NAME_image, made by symm_add_kernels(). */
/* clang-format off */
#define SYMM_IMAGES(X)                                                                             \
    X(signal, CALLS)                                                                               \
    X(all_reduce_packets, CALLS) X(all_reduce_one_shot, CALLS) X(all_reduce_two_shot, CALLS)       \
    X(reduce_scatter, CALLS) X(all_gather, CALLS) X(lamport, CALLS)                                \
    X(all_reduce_rms_norm, CALLS) X(broadcast, CALLS) X(multimem, MULTICAST)                       \
    X(matmul_portable, PRODUCTS) X(matmul_sm90, PRODUCTS) X(matmul_transport, PRODUCTS)            \
    X(matmul_collect, PRODUCTS) X(matmul_portable_traced, TRACES)                                  \
    X(matmul_sm90_traced, TRACES) X(matmul_transport_traced, TRACES)
/* clang-format on */

/* Images that are loaded together. */
enum symm_image_set {
    SYMM_IMAGES_CALLS,
    SYMM_IMAGES_MULTICAST,
    SYMM_IMAGES_PRODUCTS,
    SYMM_IMAGES_TRACES
};

enum symm_image_id {
#define SYMM_IMAGE_ID_(name, set) SYMM_IMAGE_##name,
    SYMM_IMAGES(SYMM_IMAGE_ID_)
#undef SYMM_IMAGE_ID_
        SYMM_IMAGE_COUNT
};

/* Kernel i of image m has the id m * SYMM_KERNELS_MAX + i. */
typedef int symm_kernel_id;
enum { SYMM_KERNELS_MAX = 256 };

/* From a kernel of a product to its traced one: the images of a set are in the same order. */
enum {
    SYMM_KERNELS_TRACED =
        (SYMM_IMAGE_matmul_portable_traced - SYMM_IMAGE_matmul_portable) * SYMM_KERNELS_MAX
};
_Static_assert(SYMM_IMAGE_matmul_sm90_traced - SYMM_IMAGE_matmul_sm90 ==
                       SYMM_IMAGE_matmul_portable_traced - SYMM_IMAGE_matmul_portable &&
                   SYMM_IMAGE_matmul_transport_traced - SYMM_IMAGE_matmul_transport ==
                       SYMM_IMAGE_matmul_portable_traced - SYMM_IMAGE_matmul_portable,
               "the order of images");

/* Declares the ids SYMM_KERNEL_<name> of an image's list. */
#define SYMM_KERNEL_IDS(image, KERNELS)                                                            \
    enum {                                                                                         \
        SYMM_KERNELS_BEFORE_##image = SYMM_IMAGE_##image * SYMM_KERNELS_MAX - 1,                   \
        KERNELS(SYMM_KERNEL_ID_, SYMM_KERNEL_ID_) SYMM_KERNELS_END_##image                         \
    };                                                                                             \
    _Static_assert(SYMM_KERNELS_END_##image <= (SYMM_IMAGE_##image + 1) * SYMM_KERNELS_MAX,        \
                   "too many kernels in one image")
#define SYMM_KERNEL_ID_(name, args, threads, blocks, body) SYMM_KERNEL_##name,

/* Defines the list of an image, in one source file. */
#define SYMM_KERNEL_LIST(image, KERNELS) SYMM_KERNEL_LIST_(image, KERNELS, SYMM_KERNEL_NAME_)
#define SYMM_KERNEL_NAME_(name, args, threads, blocks, body) #name,
/* The same for an image and its traced one. */
#define SYMM_KERNEL_LISTS(image, KERNELS)                                                          \
    SYMM_KERNEL_LIST(image, KERNELS);                                                              \
    SYMM_KERNEL_LIST_(image##_traced, KERNELS, SYMM_KERNEL_TRACED_NAME_)
#define SYMM_KERNEL_TRACED_NAME_(name, args, threads, blocks, body) #name "_traced",
#define SYMM_KERNEL_LIST_(image, KERNELS, NAME)                                                    \
    extern const struct symm_image symm__##image##_image;                                          \
    static const char *const image##_kernel_names[] = {KERNELS(NAME, NAME)};                       \
    const struct symm_kernel_list symm__##image##_kernels = {                                      \
        &symm__##image##_image, image##_kernel_names,                                              \
        sizeof image##_kernel_names / sizeof image##_kernel_names[0]}

struct symm_kernel_list {
    const struct symm_image *image;
    const char *const *names;
    int count;
};

/*
 * Loads an image for the driver in use; loads one of its kernels. Local. Errors: ERROR_VERSION,
 * ERROR_UNSUPPORTED (no code for this driver or this device), ERROR_ARGUMENT (no such kernel),
 * ERROR_DRIVER
 */
symm_status symm__module_load(const struct symm_driver *drv, const struct symm_image *image,
                              CUmodule *out);
symm_status symm__function_load(const struct symm_driver *drv, CUmodule module, const char *name,
                                CUfunction *out, int *max_threads);

/*
 * Makes the kernels of a context's device, and loads the images of calls and multicast: eagerly, so
 * that no load waits behind a spinning kernel. The contexts of a device in this process share them;
 * the last context unloads them. Local.
 */
symm_status symm__kernels_open(struct symm_context *ctx, struct symm_kernels **out);
/* Loads the images of a set that no context of the device has loaded yet. Local; any thread. */
symm_status symm__kernels_load(struct symm_context *ctx, struct symm_kernels *kernels,
                               enum symm_image_set set);
symm_status symm__kernels_close(struct symm_context *ctx, struct symm_kernels *kernels);
CUfunction symm__kernels_function(const struct symm_kernels *kernels, symm_kernel_id id);
const char *symm__kernels_name(symm_kernel_id id);

#endif
