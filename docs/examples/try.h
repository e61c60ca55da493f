/* Three lines every user of symm writes once. */
#ifndef TRY_H
#define TRY_H

#include <stdio.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        st = (call);                                                                               \
        if (st) {                                                                                  \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, symm_error_text());                  \
            goto out;                                                                              \
        }                                                                                          \
    } while (0)

#endif
