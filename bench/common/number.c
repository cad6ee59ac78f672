#include "common/number.h"

#include <stdio.h>
#include <string.h>

struct number number_of(int64_t value)
{
    struct number out = {{0}};
    char digits[24];
    size_t length;
    size_t written = 0;
    size_t i;

    (void)snprintf(digits, sizeof digits, "%lld", (long long)value);
    length = strlen(digits);
    for (i = 0; i < length; i++) {
        if (i > (value < 0) && (length - i) % 3 == 0) {
            out.text[written++] = ',';
        }
        out.text[written++] = digits[i];
    }
    return out;
}
