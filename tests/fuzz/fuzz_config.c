/* A configuration file: read, or refused with a line for each mistake; what was read is shown, and reads back as
 * the same. */
#include "base/check.h"
#include "config/config.h"
#include "tests/fuzz/lib/file.h"
#include "tests/fuzz/lib/input.h"

#include <stdlib.h>
#include <string.h>

static char *shown(const struct config *c, size_t *len)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, len);

    CHECK(f);
    config_show(c, NULL, f);
    fclose(f);
    return text;
}

/* Without the comments, which name the file. */
static void strip(char *text)
{
    for (char *at = text; (at = strstr(at, "  #"));) {
        size_t n = strcspn(at, "\n");

        memmove(at, at + n, strlen(at + n) + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_file file = file_of(data, size);
    struct config c;
    char *said = NULL, *text;
    size_t said_len, len;
    FILE *err = open_memstream(&said, &said_len);
    int result;

    CHECK(err);
    config_init(&c);
    result = config_load(&c, file.path, err);
    fflush(err);
    CHECK((result != 0) == (said_len > 0));
    if (config_validate(&c, NULL, err) == 0 && result == 0) {
        struct fuzz_file again;
        struct config c2;
        char *text2;
        size_t len2;

        text = shown(&c, &len);
        again = file_of((uint8_t *)text, len);
        config_init(&c2);
        CHECK(config_load(&c2, again.path, stderr) == 0);
        text2 = shown(&c2, &len2);
        strip(text);
        strip(text2);
        CHECK(strcmp(text, text2) == 0);
        config_free(&c2);
        file_end(&again);
        free(text);
        free(text2);
    }
    json_decref(config_json(&c, NULL));
    config_free(&c);
    fclose(err);
    free(said);
    file_end(&file);
    return 0;
}
