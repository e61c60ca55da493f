/* cuTensorMapEncodeTiled, with the rules of its arguments. */
#include "tensor_map.h"

#include <string.h>
#include "emulator/state/call.h"
#include "emulator/state/machine.h"

#define BOX_MAX 256u
#define STEP_MAX 8u
#define EXTENT_MAX (UINT64_C(1) << 32)
#define STRIDE_MAX (UINT64_C(1) << 40)
#define ALIGNMENT 16u
#define MAP_ALIGNMENT 64u

static const uint8_t element_nbytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
static const uint8_t swizzle_spans[] = {0, 32, 64, 128};
enum { NTYPES = sizeof element_nbytes, NSWIZZLES = sizeof swizzle_spans };
_Static_assert(NTYPES == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ + 1, "a size for each type");
_Static_assert(NSWIZZLES == CU_TENSOR_MAP_SWIZZLE_128B + 1, "a span for each swizzle");

static uint64_t mark_of(const struct emu_tensor_map *map)
{
    uint64_t words[sizeof *map / 8], mark = UINT64_C(0x74656e736f72206d);
    memcpy(words, map, sizeof words);
    for (size_t i = 1; i < sizeof words / sizeof *words; i++)
        mark = emu__random(mark, words[i]);
    return mark;
}

bool emu__tensor_map_valid(const struct emu_tensor_map *map)
{
    return map->mark == mark_of(map);
}

uint32_t emu__tensor_lines(const struct emu_tensor_map *map)
{
    uint32_t n = 1;
    for (uint32_t i = 1; i < map->ndim; i++)
        n *= map->box[i];
    return n;
}

uint32_t emu__tensor_line_nbytes(const struct emu_tensor_map *map)
{
    return (uint32_t)map->box[0] * map->element_nbytes;
}

struct emu_tensor_line emu__tensor_line(const struct emu_tensor_map *map, const int32_t *at,
                                        uint32_t line)
{
    const char *data = map->data;
    int64_t first = at[0] < 0 ? -(int64_t)at[0] : 0, end = (int64_t)map->last[0] + 1 - at[0];
    bool inside = true;
    for (uint32_t i = 1; i < map->ndim; i++) {
        int64_t x = (int64_t)at[i] + line % map->box[i];
        line /= map->box[i];
        inside = inside && x >= 0 && x <= (int64_t)map->last[i];
        data += (uint64_t)x * map->strides[i - 1];
    }
    end = end < map->box[0] ? end : map->box[0];
    if (!inside || first >= end)
        return (struct emu_tensor_line){.n = 0};
    return (struct emu_tensor_line){data + (at[0] + first) * map->element_nbytes, (uint32_t)first,
                                    (uint32_t)(end - first)};
}

#define REFUSE(...) return emu__rule(CUDA_ERROR_INVALID_VALUE, __VA_ARGS__)

static CUresult check_extent(uint32_t i, uint64_t extent, uint32_t box, uint32_t step)
{
    if (extent == 0 || extent > EXTENT_MAX)
        REFUSE("extents[%u] is %llu: 1 to 2^32", i, (unsigned long long)extent);
    if (box == 0 || box > BOX_MAX)
        REFUSE("box[%u] is %u: 1 to %u", i, box, BOX_MAX);
    if (step == 0 || step > STEP_MAX)
        REFUSE("steps[%u] is %u: 1 to %u", i, step, STEP_MAX);
    return CUDA_SUCCESS;
}

static CUresult check_strides(uint32_t ndim, const uint64_t *strides)
{
    for (uint32_t i = 0; i + 1 < ndim; i++)
        if (strides[i] % ALIGNMENT || strides[i] >= STRIDE_MAX)
            REFUSE("strides[%u] is %llu: a multiple of %u below 2^40", i,
                   (unsigned long long)strides[i], ALIGNMENT);
    return CUDA_SUCCESS;
}

static CUresult check_inner(uint32_t nbytes, uint32_t span)
{
    if (nbytes % ALIGNMENT)
        REFUSE("box[0] has %u bytes: a multiple of %u", nbytes, ALIGNMENT);
    if (span && nbytes > span)
        REFUSE("box[0] has %u bytes, more than the %u of the swizzle", nbytes, span);
    return CUDA_SUCCESS;
}

static CUresult check_modes(int dtype, uint32_t ndim, int interleave, int swizzle, int promotion,
                            int fill)
{
    if (dtype < 0 || dtype >= NTYPES)
        REFUSE("dtype is %d", dtype);
    if (ndim < 1 || ndim > EMU_TENSOR_DIMS)
        REFUSE("ndim is %u: 1 to %u", ndim, EMU_TENSOR_DIMS);
    if (swizzle < 0 || swizzle >= NSWIZZLES)
        REFUSE("swizzle is %d", swizzle);
    if (promotion < 0 || promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B)
        REFUSE("promotion is %d", promotion);
    if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE)
        return emu__rule(CUDA_ERROR_NOT_SUPPORTED, "interleave is %d: the emulator has none",
                         interleave);
    if (fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
        return emu__rule(CUDA_ERROR_NOT_SUPPORTED, "fill is %d: the emulator fills with 0", fill);
    return CUDA_SUCCESS;
}

CUresult emu_cuTensorMapEncodeTiled(void *map, int dtype, uint32_t ndim, void *data,
                                    const uint64_t *extents, const uint64_t *strides,
                                    const uint32_t *box, const uint32_t *steps, int interleave,
                                    int swizzle, int promotion, int fill)
{
    EMU_BEGIN_(EMU_NEED_NOTHING, "dtype=%d ndim=%u data=%p swizzle=%d", dtype, ndim, data, swizzle);
    EMU_NOT_NULL(map);
    EMU_NOT_NULL(data);
    EMU_NOT_NULL(extents);
    EMU_NOT_NULL(box);
    EMU_NOT_NULL(steps);
    EMU_TRY(check_modes(dtype, ndim, interleave, swizzle, promotion, fill));
    if (ndim > 1)
        EMU_NOT_NULL(strides);
    if ((uintptr_t)map % MAP_ALIGNMENT)
        return EMU_END(
            emu__rule(CUDA_ERROR_INVALID_VALUE, "map is not aligned to %u bytes", MAP_ALIGNMENT));
    if ((uintptr_t)data % ALIGNMENT)
        return EMU_END(
            emu__rule(CUDA_ERROR_INVALID_VALUE, "data is not aligned to %u bytes", ALIGNMENT));
    struct emu_tensor_map out = {.data = data,
                                 .ndim = (uint8_t)ndim,
                                 .dtype = (uint8_t)dtype,
                                 .element_nbytes = element_nbytes[dtype],
                                 .span = swizzle_spans[swizzle]};
    for (uint32_t i = 0; i < ndim; i++) {
        EMU_TRY(check_extent(i, extents[i], box[i], steps[i]));
        out.last[i] = (uint32_t)(extents[i] - 1);
        out.box[i] = (uint16_t)box[i];
        out.steps[i] = (uint8_t)steps[i];
    }
    EMU_TRY(check_strides(ndim, strides));
    EMU_TRY(check_inner(box[0] * out.element_nbytes, out.span));
    for (uint32_t i = 0; i + 1 < ndim; i++)
        out.strides[i] = strides[i];
    out.mark = mark_of(&out);
    memcpy(map, &out, sizeof out);
    return EMU_END(CUDA_SUCCESS);
}
