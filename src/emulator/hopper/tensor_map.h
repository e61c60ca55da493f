/* Tensor maps: a tensor in memory, and the boxes of it that the copy unit moves. */
#ifndef SYMM_EMULATOR_TENSOR_MAP_H
#define SYMM_EMULATOR_TENSOR_MAP_H

#include <stdbool.h>
#include <stdint.h>

#define EMU_TENSOR_DIMS 5u
#define EMU_TENSOR_PACK 16u /* bytes that a swizzle moves together */

/* A CUtensorMap as this driver writes it. */
struct emu_tensor_map {
    uint64_t mark; /* of the rest */
    const char *data;
    uint64_t strides[EMU_TENSOR_DIMS - 1]; /* bytes, from the second dimension on */
    uint32_t last[EMU_TENSOR_DIMS];        /* elements of a dimension, less 1 */
    uint16_t box[EMU_TENSOR_DIMS];
    uint8_t steps[EMU_TENSOR_DIMS];
    uint8_t ndim, element_nbytes, span; /* span: bytes of a swizzled line; 0: not swizzled */
    uint8_t dtype;                      /* a CUtensorMapDataType */
    uint8_t reserved[41];
};
_Static_assert(sizeof(struct emu_tensor_map) == 128, "the size of a CUtensorMap");

/* Elements [first, first + n) of a line of a box lie in the tensor, from data on; n may be 0. */
struct emu_tensor_line {
    const char *data;
    uint32_t first, n;
};

/* Lines of a box, and the bytes of one. */
uint32_t emu__tensor_lines(const struct emu_tensor_map *map);
uint32_t emu__tensor_line_nbytes(const struct emu_tensor_map *map);
/* Line number `line` of the box at these coordinates. */
struct emu_tensor_line emu__tensor_line(const struct emu_tensor_map *map, const int32_t *at,
                                        uint32_t line);

/* Whether this driver has written the map, and nobody changed it since. */
bool emu__tensor_map_valid(const struct emu_tensor_map *map);

#endif
