#include "secret.h"

#include <stdio.h>
#include <string.h>

const char *cli_secret_read(const char *given, char line[CLI_SECRET_LINE_SIZE])
{
    if (strcmp(given, "-") != 0) {
        return given;
    }
    if (!fgets(line, CLI_SECRET_LINE_SIZE, stdin)) {
        line[0] = '\0';
    }
    line[strcspn(line, "\r\n")] = '\0';
    return line;
}
