/* The texts of err.h's table. */
#include "base/err.h"

const char *hawk_strerror(int err)
{
    switch (err) {
    case 0:
        return "success";
#define X(name, code, text)                                                                                  \
    case code:                                                                                               \
        return text;
        HAWK_ERRORS(X)
#undef X
    }
    return "unknown error";
}
