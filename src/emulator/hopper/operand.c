/*
 * The layouts of operands in shared memory, from the table of canonical layouts in the PTX manual.
 * With a swizzle of W bytes (16: none), an atom is eight lines of W bytes, and its packs of 16
 * bytes are permuted. A line is along k, or, of a transposed operand, across k.
 */
#include "operand.h"

#include <stdio.h>
#include <string.h>
#include <symm/detail/convert.h>

#define PACK 16u
#define PACK_ELEMENTS 8u
#define LINES 8u
#define USED_BITS UINT64_C(0xc00e3fff3fff3fff)

struct layout {
    uint32_t start, leading, stride, base,
        width; /* bytes; base: the line where the pattern begins */
};

static struct layout layout_of(uint64_t descriptor)
{
    static const uint32_t widths[] = {PACK, 128, 64, 32};
    return (struct layout){(uint32_t)(descriptor & 0x3fff) * PACK,
                           (uint32_t)(descriptor >> 16 & 0x3fff) * PACK,
                           (uint32_t)(descriptor >> 32 & 0x3fff) * PACK,
                           (uint32_t)(descriptor >> 49 & 7), widths[descriptor >> 62]};
}

bool emu__descriptor_valid(uint64_t descriptor, char *rule)
{
    struct layout x = layout_of(descriptor);
    uint32_t lines = x.width / PACK; /* of the pattern, of 128 bytes each */
    if (descriptor & ~USED_BITS)
        snprintf(rule, EMU_RULE_NBYTES, "the descriptor 0x%016llx has bits that must be 0",
                 (unsigned long long)descriptor);
    else if (x.width > PACK && (x.start >> 7 & (lines - 1)) != (x.base & (lines - 1)))
        snprintf(rule, EMU_RULE_NBYTES,
                 "the descriptor's address 0x%x is in line %u of the swizzle's pattern, which "
                 "repeats every %u bytes, but its base offset is %u",
                 x.start, x.start >> 7 & (lines - 1), lines * 128, x.base);
    else
        return true;
    return false;
}

/* The address of a pack of eight elements: of line `line` from k on, or across k from `line` on. */
static uint32_t pack_address(const struct layout *x, bool transposed, uint32_t line, uint32_t k)
{
    bool swizzled = x->width > PACK;
    uint32_t across = transposed ? line * 2 : k * 2, of_line = transposed ? k : line,
             at = x->start + of_line % LINES * x->width;
    if (transposed) {
        at += across % x->width + across / x->width * (swizzled ? x->leading : x->stride);
        at += of_line / LINES * (swizzled ? x->stride : x->leading);
    } else {
        at += of_line / LINES * x->stride;
        at += swizzled ? across : across / PACK * x->leading;
    }
    return swizzled ? at ^ ((((at >> 7) - x->base) & (x->width / PACK - 1)) * PACK) : at;
}

/* An operand in shared memory. */
struct source {
    struct layout layout;
    bool transposed;
    uint32_t type;
};

static bool read_pack(const struct block *b, const struct source *x, uint32_t line, uint32_t k,
                      float *out, char *rule)
{
    uint32_t address = pack_address(&x->layout, x->transposed, line, k);
    const char *from = emu__window_bytes(b, address, PACK);
    uint16_t bits[PACK_ELEMENTS];
    if (!from) {
        snprintf(rule, EMU_RULE_NBYTES,
                 "wgmma reads shared memory at 0x%x, which is outside of the block's", address);
        return false;
    }
    memcpy(bits, from, sizeof bits);
    for (uint32_t i = 0; i < PACK_ELEMENTS; i++)
        out[i] = x->type == SYMM_EMULATED_WGMMA_F16 ? symm_detail_from_f16(bits[i])
                                                    : symm_detail_from_bf16(bits[i]);
    return true;
}

/* Element k of line i goes to out[i * line + k * step]. */
static bool read_operand(const struct block *b, const struct source *x, struct emu_lines lines,
                         float *out, size_t line, size_t step, char *rule)
{
    const uint32_t across = x->transposed ? PACK_ELEMENTS : 1,
                   along = x->transposed ? 1 : PACK_ELEMENTS;
    float pack[PACK_ELEMENTS];
    for (uint32_t i = lines.first; i < lines.first + lines.count; i += across)
        for (uint32_t k = 0; k < EMU_WGMMA_DEPTH; k += along) {
            if (!read_pack(b, x, i, k, pack, rule))
                return false;
            for (uint32_t j = 0; j < PACK_ELEMENTS; j++)
                out[x->transposed ? (i + j) * line + k * step : i * line + (k + j) * step] =
                    pack[j];
        }
    return true;
}

bool emu__operands_read(const struct block *b, const struct symm_emulated_wgmma *how,
                        struct emu_lines rows, struct emu_operands *out, char *rule)
{
    const struct source at = {layout_of(how->a), how->a_transposed, how->type},
                        bt = {layout_of(how->b), how->b_transposed, how->type};
    return read_operand(b, &at, rows, &out->a[0][0], EMU_WGMMA_DEPTH, 1, rule) &&
           read_operand(b, &bt, (struct emu_lines){0, how->columns}, &out->b[0][0], 1,
                        EMU_WGMMA_COLUMNS, rule);
}
