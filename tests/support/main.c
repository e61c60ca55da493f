/* The main of every test program that has none of its own. */
#include "test.h"

int main(void)
{
    return test_main();
}
