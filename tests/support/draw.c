/* Random numbers by splitmix64. */
#include "draw.h"

uint64_t draw_next(struct draw *draw)
{
    uint64_t x = draw->state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint32_t draw_below(struct draw *draw, uint32_t n)
{
    return (uint32_t)(draw_next(draw) >> 16) % n;
}
