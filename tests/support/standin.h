/* The stand-in for NCCL, for programs that open NCCL at run time. */
#ifndef TEST_STANDIN_H
#define TEST_STANDIN_H

/* SYMM_NCCL_LIBRARY is the stand-in from now on. */
void standin_use(void);
/* One without registration of memory. */
void standin_use_old(void);

#endif
