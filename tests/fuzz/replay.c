/* Runs every file of a corpus directory through the fuzz entry point. */

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *dir, const char *name)
{
    static uint8_t data[1 << 20];
    char path[4096];
    size_t size;
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return EXIT_FAILURE;
    }
    size = fread(data, 1, sizeof data, file);
    (void)fclose(file);
    return LLVMFuzzerTestOneInput(data, size);
}

int main(int argc, char **argv)
{
    DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
    const struct dirent *entry;
    int result = EXIT_SUCCESS;
    int n_files = 0;

    if (!dir) {
        (void)fprintf(stderr, "usage: %s corpus-directory\n", argv[0]);
        return EXIT_FAILURE;
    }
    for (entry = readdir(dir); entry && result == EXIT_SUCCESS; entry = readdir(dir)) {
        if (entry->d_name[0] != '.') {
            result = replay_file(argv[1], entry->d_name);
            n_files++;
        }
    }
    (void)closedir(dir);
    return n_files > 0 ? result : EXIT_FAILURE;
}
