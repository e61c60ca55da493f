#include "places.h"

#include <string.h>

void emu__places_init(struct emu_places *places, unsigned nsms, unsigned of_sm)
{
    places->nsms = nsms;
    places->of_sm = (uint8_t)of_sm;
    memset(places->free, (int)of_sm, nsms);
}

uint64_t emu__places_fit(const struct emu_places *places, unsigned size)
{
    uint64_t fit = 0;
    for (unsigned sm = 0; sm < places->nsms; sm++)
        fit += places->free[sm] / size;
    return fit;
}

void emu__places_take(struct emu_places *places, unsigned size, uint64_t n, uint16_t *sms)
{
    for (unsigned free = places->of_sm; n > 0 && free >= size; free--)
        for (unsigned sm = 0; n > 0 && sm < places->nsms; sm++) {
            if (places->free[sm] != free)
                continue;
            places->free[sm] = (uint8_t)(free - size);
            if (sms)
                *sms++ = (uint16_t)sm;
            n--;
        }
}

void emu__places_give_back(struct emu_places *places, unsigned size, uint16_t sm)
{
    places->free[sm] = (uint8_t)(places->free[sm] + size);
}
