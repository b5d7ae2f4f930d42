// Changes the environment before the program begins, as libraries that fake a clock do: Swift's runtime looks for the
// arguments in front of it.
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void begin(void) {
    char name[32];
    for (int number = 0; number < 64; number++) {
        snprintf(name, sizeof name, "ADDED_%d", number);
        setenv(name, "1", 1);
    }
}
