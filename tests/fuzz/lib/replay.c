/* Without libFuzzer: runs the target on every input of its seed corpus, or on the files named. The corpus
 * lies beside the programs, in ../seeds/NAME; make unpacks it from tests/fuzz/corpus/NAME.tar.xz. The
 * target's own checks, and the sanitizers, abort. */
#include "base/check.h"
#include "base/mem.h"
#include "tests/fuzz/lib/input.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char directory[512];

/* In a buffer of its own size, so that a read past the end is seen. */
static void replay(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data;
    long size;

    printf("%s\n", path); /* the last one told of is the one that fails */
    fflush(stdout);
    if (!f)
        fail_msg("%s cannot be read", path);
    fseek(f, 0, SEEK_END);
    size = ftell(f);
    rewind(f);
    data = xmalloc((size_t)size);
    assert_int_equal(fread(data, 1, (size_t)size, f), size);
    fclose(f);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
}

static void corpus(void **state)
{
    struct dirent **names;
    int n = scandir(directory, &names, NULL, alphasort), files = 0;

    (void)state;
    for (int i = 0; i < n; i++) {
        char path[800];

        snprintf(path, sizeof path, "%s/%s", directory, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            replay(path), files++;
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    if (!files)
        fail_msg("%s has no inputs; make test unpacks them", directory);
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(corpus)};
    const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];

    CHECK(strncmp(name, "fuzz_", 5) == 0);
    snprintf(directory, sizeof directory, "%.*s/../seeds/%s", slash ? (int)(slash - argv[0]) : 1,
             slash ? argv[0] : ".", name + 5);
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    return argc > 1 ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
}
