// A fault in the thread named by POISON_THREAD as soon as it copies the text of POISON_TEXT: what a program does that has a
// defect and reads the wrong line. Loaded before the C library; without both variables it changes nothing.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const char *text, *thread;
static size_t text_length;

__attribute__((constructor)) static void begin(void) {
    text = getenv("POISON_TEXT");
    thread = getenv("POISON_THREAD");
    text_length = text ? strlen(text) : 0;
}

static void look(const void *bytes, size_t count) {
    if (text == NULL || thread == NULL || count < text_length || memmem(bytes, count, text, text_length) == NULL) return;
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    if (strcmp(name, thread) != 0) return;
    if (getenv("POISON_KILL") != NULL) raise(SIGKILL);
    *(volatile int *)16 = 0;
}

void *memmove(void *target, const void *source, size_t count) {
    static void *(*real)(void *, const void *, size_t);
    if (real == NULL) real = (void *(*)(void *, const void *, size_t))dlsym(RTLD_NEXT, "memmove");
    look(source, count);
    return real(target, source, count);
}

void *memcpy(void *target, const void *source, size_t count) {
    static void *(*real)(void *, const void *, size_t);
    if (real == NULL) real = (void *(*)(void *, const void *, size_t))dlsym(RTLD_NEXT, "memcpy");
    look(source, count);
    return real(target, source, count);
}
